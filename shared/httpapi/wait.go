package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/wire"
)

const writeTimeout = 30 * time.Second

// PreferredWait returns the time that the caller is willing to wait for the result, limited to
// most. It is the first "Prefer: wait=SECONDS" (RFC 7240), or 0 if that is missing or invalid.
func PreferredWait(h http.Header, most time.Duration) time.Duration {
	for _, line := range h.Values(api.Prefer) {
		for preference := range strings.SplitSeq(line, ",") {
			token, _, _ := strings.Cut(preference, ";") // the rest are parameters
			name, value, _ := strings.Cut(token, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			seconds, err := strconv.ParseInt(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
			if err != nil || seconds < 0 {
				return 0
			}
			return min(time.Duration(seconds)*time.Second, most)
		}
	}
	return 0
}

// Extend extends the connection's deadlines by the wait. It does nothing without a connection.
func Extend(w http.ResponseWriter, wait time.Duration, now time.Time) {
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{})
	_ = connection.SetWriteDeadline(now.Add(wait + writeTimeout))
}

// MaxWait is the maximum time that a caller can wait for a change to be in force.
const MaxWait = 30 * time.Second

// Checkers reports whether a change is in force.
type Checkers interface {
	// InForce waits until the change is in force at all checkers, for at most wait. An unknown
	// state is not an error.
	InForce(ctx context.Context, c checkers.Change, wait time.Duration) wire.InForce
}

type effective[Res any] interface {
	*Res
	Effective(f wire.InForce)
}

// ServeChange is [Serve] for routes that change the gate's behavior, and for the route that
// reports on a change. The response contains the change's ID. With "Prefer: wait" it is sent when
// the change is in force. If the wait ends earlier, the status is 202, or 201 for a creation. A zero
// Change, such as that of a dry run, is not waited for.
func ServeChange[Req, Res any, P effective[Res]](a *API, route api.Route[Req, Res], at Checkers,
	answer func(context.Context, Scope, Req) (Res, checkers.Change, error),
) {
	a.Handle(route.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, in, err := prepare[Req](a, route.Row, w, r)
		if err != nil {
			return err
		}
		out, change, err := answer(r.Context(), scope, in)
		if err != nil {
			return err
		}
		if change.ID != "" {
			w.Header().Set(api.ChangeID, change.ID)
		}
		wait := PreferredWait(declared(route.Row, r).Header, MaxWait)
		if (wait == 0 || change == checkers.Change{}) && r.Method != http.MethodGet {
			return WriteJSON(w, route.Status, out)
		}
		Extend(w, wait, a.now())
		force := at.InForce(r.Context(), change, wait)
		P(&out).Effective(force)
		if wait > 0 {
			w.Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
		}
		status := route.Status
		if !force.Everywhere && status != http.StatusCreated {
			status = http.StatusAccepted
		}
		return WriteJSON(w, status, out)
	})
}
