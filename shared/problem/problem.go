// Package problem defines all errors that Sluice sends to clients.
//
// Each error response of the gate, the management API and the webhook is the JSON object
// {"code","message"} with a stable code (promises G9, A2). If fields of the request are invalid,
// "errors" lists them. [Table] contains the HTTP status and the default message of each code. The
// cause of an error is only logged.
package problem

import (
	"errors"
	"fmt"
	"time"
)

// Code is the stable name of a problem, e.g. "invalid_key".
type Code string

// Error is a problem to send to a client.
type Error struct {
	Code    Code
	Message string // may change; never contains a secret

	// RetryAfter is the value of the Retry-After header; 0 for none.
	RetryAfter time.Duration

	// Field is the path of the invalid request field, e.g. "rate", "git_source.branch" or
	// "members[1].role"; "" for none or several.
	Field string

	others []*Error // problems of other fields
	cause  error    // logged only
}

// New returns a problem with a specific message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), RetryAfter: row(code).RetryAfter, Field: fieldOf[code]}
}

// FromCode returns a problem with the default message.
func FromCode(code Code) *Error {
	r := row(code)
	return &Error{Code: code, Message: r.Message, RetryAfter: r.RetryAfter, Field: fieldOf[code]}
}

// WithCause returns a copy of e with a cause for the log.
func (e *Error) WithCause(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// WithRetryAfter returns a copy of e with the Retry-After d.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Error returns the code, the message and the cause, for logs.
func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Status returns the HTTP status of e's code.
func (e *Error) Status() int { return row(e.Code).Status }

// Challenge returns the WWW-Authenticate header of a 401, and "" for other statuses.
func (e *Error) Challenge() string { return challenges[e.Code] }

// RetryAfterSeconds returns the Retry-After header in seconds, rounded up; 0 for no header.
func (e *Error) RetryAfterSeconds() int64 {
	if e.RetryAfter <= 0 {
		return 0
	}
	return int64((e.RetryAfter + time.Second - 1) / time.Second)
}

// From returns the problem in err's chain. If there is none, it returns [Internal] with the cause
// err.
func From(err error) *Error {
	var p *Error
	if errors.As(err, &p) {
		return p
	}
	return FromCode(Internal).WithCause(err)
}

// Is reports whether err's chain contains a problem with the code.
func Is(err error, code Code) bool {
	var p *Error
	return errors.As(err, &p) && p.Code == code
}
