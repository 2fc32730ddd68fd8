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

// answerPatience is how long the answer to a call that has waited may take to be sent.
const answerPatience = 30 * time.Second

// PreferredWait is how long a caller is willing to wait for the outcome: what its first
// "Prefer: wait=SECONDS" says (RFC 7240), at most the given time; 0 where it says nothing
// of use.
func PreferredWait(h http.Header, most time.Duration) time.Duration {
	for _, line := range h.Values(api.Prefer) {
		for preference := range strings.SplitSeq(line, ",") {
			token, _, _ := strings.Cut(preference, ";") // what follows are parameters
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

// Extend lets an answer come as late as a wait makes it: the server's own deadlines are
// for calls that do not wait. Without a connection there are none.
func Extend(w http.ResponseWriter, wait time.Duration, now time.Time) {
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Time{})
	_ = connection.SetWriteDeadline(now.Add(wait + answerPatience))
}

// MaxWait is the longest that a caller can wait for a change to be in force.
const MaxWait = 30 * time.Second

// Checkers says whether a change is in force at all of them, waiting for that as long as
// is asked for. It is no error that it is not, or that nobody can tell.
type Checkers interface {
	InForce(ctx context.Context, c checkers.Change, wait time.Duration) wire.InForce
}

// effective is an answer that can say whether what it answers is in force.
type effective[Res any] interface {
	*Res
	Effective(f wire.InForce)
}

// ServeChange is [Serve] for what changes the gate, and for what asks about such a change.
// The answer names the change. With "Prefer: wait" it comes once the change is in force,
// and reports it. If the wait ends before that, the status is 202; that of a creation stays 201.
func ServeChange[Req, Res any, P effective[Res]](a *API, route api.Route[Req, Res], at Checkers,
	answer func(context.Context, Scope, Req) (Res, checkers.Change, error),
) {
	a.Handle(route.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, in, err := begun[Req](a, route.Row, w, r)
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
		if wait == 0 && r.Method != http.MethodGet {
			return JSON(w, route.Status, out)
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
		return JSON(w, status, out)
	})
}
