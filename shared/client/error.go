package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

// Error is an answer that is no success.
type Error struct {
	Status     int           // HTTP status, e.g. 404
	Code       string        // stable, e.g. "not_found"; "" when it was not Sluice that answered
	Message    string        // for people
	RetryAfter time.Duration // zero when the answer had none
	RequestID  string        // finds the request in the server's log; may be ""
}

// Error says what a person needs to know, the code included.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// HasCode tells whether err is an [*Error] with a code, e.g. "not_found".
func HasCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

func readError(res *http.Response, body []byte) *Error {
	e := &Error{
		Status: res.StatusCode, Message: http.StatusText(res.StatusCode),
		RequestID: res.Header.Get("X-Request-Id"),
	}
	if s, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	var told wire.Error
	if err := json.Unmarshal(body, &told); err == nil && told.Code != "" {
		e.Code, e.Message = told.Code, told.Message
	}
	return e
}
