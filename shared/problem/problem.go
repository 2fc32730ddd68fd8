// Package problem is the one table of what can go wrong and how a client is told.
//
// Every error answer of Sluice, on the gate, the management API and the webhook, is the
// JSON object {"code","message"} with a stable code (promises G9, A2), and, where fields of
// a request are wrong, with "errors", one for each of them. A code stands in
// [Table] once, with its status and its default message; code that fails names the
// code, and the table says the rest. The cause of an error travels beside it for the
// log and never reaches the client.
package problem

import (
	"errors"
	"fmt"
	"time"
)

// Code is a stable, machine-matchable name of a problem, e.g. "invalid_key".
type Code string

// Error is a problem on its way to a client.
type Error struct {
	Code    Code
	Message string // for people; may change; never holds a secret

	// RetryAfter is sent as Retry-After in whole seconds, rounded up; zero sends none.
	RetryAfter time.Duration

	// Field is the field of the request that the problem is about, as the request names it,
	// e.g. "rate", "git_source.branch" or "members[1].role"; "" is none, or several.
	Field string

	beside []*Error // about other fields, found with it
	cause  error    // for the log only
}

// New makes a problem with a message of its own.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), RetryAfter: row(code).RetryAfter, Field: fieldOf[code]}
}

// Of makes a problem with the table's message.
func Of(code Code) *Error {
	r := row(code)
	return &Error{Code: code, Message: r.Message, RetryAfter: r.RetryAfter, Field: fieldOf[code]}
}

// Because keeps the cause for the log and returns a copy of e.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// After sets Retry-After and returns a copy of e.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Error is for logs: the code, the message and the cause.
func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Message)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.cause }

// Status is the HTTP status of e's code.
func (e *Error) Status() int { return row(e.Code).Status }

// Challenge is the value of the WWW-Authenticate header, which every 401 has; "" of the
// others.
func (e *Error) Challenge() string { return challenges[e.Code] }

// RetryAfterSeconds is the value of the Retry-After header: whole seconds,
// rounded up, at least 1; zero when there is none to send.
func (e *Error) RetryAfterSeconds() int64 {
	if e.RetryAfter <= 0 {
		return 0
	}
	return int64((e.RetryAfter + time.Second - 1) / time.Second)
}

// From finds the problem in err's chain. An error that holds none is
// [Internal], with err as its cause.
func From(err error) *Error {
	var p *Error
	if errors.As(err, &p) {
		return p
	}
	return Of(Internal).Because(err)
}

// Is tells whether err's chain holds a problem with this code.
func Is(err error, code Code) bool {
	var p *Error
	return errors.As(err, &p) && p.Code == code
}
