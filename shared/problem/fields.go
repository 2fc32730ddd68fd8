package problem

import (
	"errors"
	"slices"
)

// fieldOf contains the request field of each code that always refers to the same field. [ForField] sets
// the field for other codes.
//
//nolint:gochecknoglobals // a constant table
var fieldOf = map[Code]string{
	InvalidName:   "name",
	InvalidRate:   "rate",
	InvalidBurst:  "burst",
	InvalidQuota:  "quota",
	InvalidExpiry: "expires_at",
	ExpiryInPast:  "expires_at",
	InvalidGrace:  "grace",
	InvalidStatus: "status",
	InvalidState:  "state",
	InvalidScope:  "apps",
	InvalidTag:    "tags",
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

// FieldErrors returns the field problems in e, in the order in which they were found: e itself if it has
// a field, and those that [Join] has added.
func (e *Error) FieldErrors() []*Error {
	var all []*Error
	for _, p := range append([]*Error{e}, e.others...) {
		if p.Field != "" {
			all = append(all, p)
		}
	}
	return all
}

// ForField returns a copy of err with the field, e.g. "quota_period". It returns err unchanged if err is
// not a problem.
func ForField(field string, err error) error {
	var p *Error
	if !errors.As(err, &p) {
		return err
	}
	c := *p
	c.Field = field
	return &c
}

// Nest returns a copy of err with the object's name before each field: for "git_source", "branch"
// becomes "git_source.branch".
func Nest(object string, err error) error {
	var p *Error
	if !errors.As(err, &p) {
		return err
	}
	c := *p
	c.others = nil
	if c.Field != "" {
		c.Field = object + "." + c.Field
	}
	for _, other := range p.others {
		o := *other
		o.Field = object + "." + o.Field
		c.others = append(c.others, &o)
	}
	return &c
}

const maxWrong = 100

// Join joins errors: it returns the first one, with up to [maxWrong] invalid fields of all of them,
// each with its first problem. It returns nil if all errors are nil, and the first error that is
// not a problem, if any.
func Join(errs ...error) error {
	var found []*Error
	for _, err := range errs {
		var p *Error
		switch {
		case err == nil:
		case errors.As(err, &p):
			found = append(append(found, p), p.others...)
		default:
			return err
		}
	}
	if len(found) == 0 {
		return nil
	}
	first := *found[0]
	first.others = nil
	for _, p := range found[1:] {
		known := func(q *Error) bool { return q.Field == p.Field }
		if len(first.others)+1 == maxWrong {
			break
		}
		if p.Field != "" && p.Field != first.Field && !slices.ContainsFunc(first.others, known) {
			first.others = append(first.others, p)
		}
	}
	return &first
}
