package problem

import (
	"errors"
	"slices"
)

// fieldOf are the fields of requests that codes are about, where that is always the same
// one; [At] says it for the others.
//
//nolint:gochecknoglobals // a constant table; Go has no constant composite values
var fieldOf = map[Code]string{
	InvalidName:   "name",
	InvalidRate:   "rate",
	InvalidBurst:  "burst",
	InvalidQuota:  "quota",
	InvalidExpiry: "expires_at",
	ExpiryInPast:  "expires_at",
	InvalidGrace:  "grace",
	InvalidStatus: "status",
	InvalidScope:  "apps",
	UnknownPlan:   "plan",
	InvalidImage:  "image",
	ImageRequired: "image",
	InvalidHost:   "host",
	HostTaken:     "host",
	HostReserved:  "host",
	InvalidPort:   "port",
	InvalidSource: "git_source",
	InvalidRole:   "role",
	InvalidPass:   "password",
	InvalidCommit: "commit",

	InvalidPreflight: "preflight",
}

// Wrong are the problems with a request's fields that e holds, in the order in which they
// were found: e itself, if it is about one, and what [All] has put beside it.
func (e *Error) Wrong() []*Error {
	var all []*Error
	for _, p := range append([]*Error{e}, e.beside...) {
		if p.Field != "" {
			all = append(all, p)
		}
	}
	return all
}

// At gives err with the field that it is about, e.g. "quota_period". What is no problem
// stays as it is.
func At(field string, err error) error {
	var p *Error
	if !errors.As(err, &p) {
		return err
	}
	c := *p
	c.Field = field
	return &c
}

// Within gives err about fields of an object in a request as about the request's: with
// "git_source", "branch" becomes "git_source.branch".
func Within(object string, err error) error {
	var p *Error
	if !errors.As(err, &p) {
		return err
	}
	c := *p
	c.beside = nil
	if c.Field != "" {
		c.Field = object + "." + c.Field
	}
	for _, other := range p.beside {
		o := *other
		o.Field = object + "." + o.Field
		c.beside = append(c.beside, &o)
	}
	return &c
}

// maxWrong bounds how many wrong fields a client is told of.
const maxWrong = 100

// All gives the first of several errors together with the others, so that a client is told
// of all wrong fields at once, each by what was found first of it, up to 100 of them. It is nil where none of
// them is an error. An error that is no problem goes before all: nothing can be said of the
// request then.
func All(errs ...error) error {
	var found []*Error
	for _, err := range errs {
		var p *Error
		switch {
		case err == nil:
		case errors.As(err, &p):
			found = append(append(found, p), p.beside...)
		default:
			return err
		}
	}
	if len(found) == 0 {
		return nil
	}
	first := *found[0]
	first.beside = nil
	for _, p := range found[1:] {
		known := func(q *Error) bool { return q.Field == p.Field }
		if len(first.beside)+1 == maxWrong {
			break
		}
		if p.Field != "" && p.Field != first.Field && !slices.ContainsFunc(first.beside, known) {
			first.beside = append(first.beside, p)
		}
	}
	return &first
}
