package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

// JSON answers v as JSON with a status. It returns nil, so that a handler can
// end with it; a client that hangs up meanwhile is no error of ours.
func JSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	write(w, status, body)
	return nil
}

// NoContent answers 204.
func NoContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Fail answers a problem: {"code","message"} and, where it has one, Retry-After.
func Fail(w http.ResponseWriter, p *problem.Error) {
	if s := p.RetryAfterSeconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(s, 10))
	}
	body, err := json.Marshal(wire.Error{Code: string(p.Code), Message: p.Message})
	if err != nil { // two strings always encode
		panic(err)
	}
	write(w, p.Status(), body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has hung up is not told anything more
}
