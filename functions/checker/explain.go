package checker

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/explain"
	"github.com/sluicegate/sluice/shared/usage"
)

const (
	// explaining is how many questions about denials are read or answered at one time.
	explaining = 16

	// slowest is how long a question may take to come: whoever reaches the port can begin
	// one, and must not keep others from asking.
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
	q, status := c.readQuestion(w, r, c.usages)
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	answer := usage.Memory{Run: c.process, At: c.now().UTC(), Counts: []usage.Held{}}
	for _, p := range q.Prefixes[:min(len(q.Prefixes), usage.MaxMemoryKeys)] {
		if slot, ok := c.snapshot.find(apikey.Prefix(p)); ok {
			answer.Counts = append(answer.Counts, c.meter.Held(slot, p)...)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // who has hung up does not want to know
}

// serveExplain answers why a request was refused, to who may know it (package explain).
func (c *Checker) serveExplain(w http.ResponseWriter, r *http.Request) {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	q, status := c.readQuestion(w, r, c.explains)
	if status != http.StatusOK {
		w.WriteHeader(status)
		return
	}
	answer := explain.Answer{Replica: c.cfg.Replica, Run: c.process, Denials: []explain.Denial{}}
	for _, d := range c.denials.FindIn(q.RequestID, q.Sees, explain.MaxDenials) {
		answer.Denials = append(answer.Denials, explain.Denial{
			At: d.At, Code: d.Code, Reason: explain.Reason(d.Reason), Namespace: d.Namespace, App: d.App, KeyPrefix: d.KeyPrefix, Method: d.Method,
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // who has hung up does not want to know
}

func (c *Checker) readQuestion(w http.ResponseWriter, r *http.Request, taken *explain.Asked) (explain.Question, int) {
	seals := r.Header.Values(explain.Header)
	if r.Method != http.MethodPost {
		return explain.Question{}, http.StatusMethodNotAllowed
	}
	if len(seals) != 1 {
		return explain.Question{}, http.StatusForbidden
	}
	_ = http.NewResponseController(w).SetReadDeadline(c.now().Add(slowest)) // which not every server has
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, explain.MaxQuestion))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return explain.Question{}, http.StatusRequestEntityTooLarge
	case err != nil:
		return explain.Question{}, http.StatusBadRequest
	}
	q, err := taken.Open(body, seals[0], c.now())
	switch {
	case err == nil:
		return q, http.StatusOK
	case errors.Is(err, explain.ErrShape):
		return q, http.StatusBadRequest
	case errors.Is(err, explain.ErrTooMany):
		return q, http.StatusServiceUnavailable
	}
	c.log.Debug("question refused", "address", r.RemoteAddr, "error", err)
	return q, http.StatusForbidden
}
