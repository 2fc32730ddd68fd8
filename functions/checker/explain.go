package checker

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	// explaining is how many queries about denials are handled at the same time.
	explaining = 16

	// slowest is how long a query may take to arrive. Anybody who reaches the port can begin one
	// and must not keep others waiting.
	slowest = time.Second
)

// serveUsage returns the counts of some keys that this process holds in memory (package
// counted), to callers that read the store.
func (c *Checker) serveUsage(w http.ResponseWriter, r *http.Request) {
	select {
	case c.reporting <- struct{}{}:
		defer func() { <-c.reporting }()
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	q, status := c.readQuery(w, r, c.usages)
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	response := usage.Memory{Run: c.process, At: c.now().UTC(), Counts: []usage.Held{}}
	for _, p := range q.Prefixes[:min(len(q.Prefixes), usage.MaxMemoryKeys)] {
		if slot, ok := c.snapshot.find(apikey.Prefix(p)); ok {
			response.Counts = append(response.Counts, c.meter.Held(slot, p)...)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response) // the client may have gone
}

// serveExplain returns the denials of a request, to callers that read the store.
func (c *Checker) serveExplain(w http.ResponseWriter, r *http.Request) {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	q, status := c.readQuery(w, r, c.explains)
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	response := checkers.Response{Replica: c.cfg.Replica, Run: c.process, Denials: []checkers.Denial{}}
	for _, d := range c.denials.FindIn(q.RequestID, q.Sees, checkers.MaxDenials) {
		response.Denials = append(response.Denials, checkers.Denial{
			At: d.At, Code: d.Code, Reason: checkers.Reason(d.Reason), Namespace: d.Namespace, App: d.App, KeyPrefix: d.KeyPrefix, Method: d.Method,
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response) // the client may have gone
}

func (c *Checker) readQuery(w http.ResponseWriter, r *http.Request, guard *checkers.ReplayGuard) (checkers.Query, int) {
	signatures := r.Header.Values(checkers.SignatureHeader)
	if r.Method != http.MethodPost {
		return checkers.Query{}, http.StatusMethodNotAllowed
	}
	if len(signatures) != 1 {
		return checkers.Query{}, http.StatusForbidden
	}
	_ = http.NewResponseController(w).SetReadDeadline(c.now().Add(slowest)) // which not every server has
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, checkers.MaxQuery))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return checkers.Query{}, http.StatusRequestEntityTooLarge
	case err != nil:
		return checkers.Query{}, http.StatusBadRequest
	}
	q, err := guard.VerifyQuery(body, signatures[0], c.now())
	switch {
	case err == nil:
		return q, http.StatusOK
	case errors.Is(err, checkers.ErrMalformed):
		return q, http.StatusBadRequest
	case errors.Is(err, checkers.ErrTooMany):
		return q, http.StatusServiceUnavailable
	}
	c.log.Debug("query rejected", "address", r.RemoteAddr, "error", err)
	return q, http.StatusForbidden
}
