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
	maxQueries = 16

	// queryTimeout limits the time for receiving a query, which any client can begin.
	queryTimeout = time.Second
)

// serveUsage serves POST /usage, which returns counts in memory.
func (c *Checker) serveUsage(w http.ResponseWriter, r *http.Request) {
	select {
	case c.usageQueries <- struct{}{}:
		defer func() { <-c.usageQueries }()
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	q, status := c.readQuery(w, r, c.usageGuard)
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
	_ = json.NewEncoder(w).Encode(response)
}

// serveExplain serves POST /denials, which returns the reasons for a request's denials.
func (c *Checker) serveExplain(w http.ResponseWriter, r *http.Request) {
	select {
	case c.denialQueries <- struct{}{}:
		defer func() { <-c.denialQueries }()
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	q, status := c.readQuery(w, r, c.denialGuard)
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
	_ = json.NewEncoder(w).Encode(response)
}

// readQuery verifies the signature of a query. Only callers that can read the store have the key.
func (c *Checker) readQuery(w http.ResponseWriter, r *http.Request, guard *checkers.ReplayGuard) (checkers.Query, int) {
	signatures := r.Header.Values(checkers.SignatureHeader)
	if r.Method != http.MethodPost {
		return checkers.Query{}, http.StatusMethodNotAllowed
	}
	if len(signatures) != 1 {
		return checkers.Query{}, http.StatusForbidden
	}
	_ = http.NewResponseController(w).SetReadDeadline(c.now().Add(queryTimeout)) // not supported by every server
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
