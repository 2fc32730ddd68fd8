package checkers

import (
	"fmt"
	"net/url"
	"slices"
	"time"
)

// AckPath is the path of a checker for acknowledgments.
const AckPath = "/applied"

// AckTimeout is the maximum time that a checker waits for the requested times before it responds.
const AckTimeout = time.Second

// Ack is an acknowledgment: the read time that a member has applied, for each data type.
type Ack struct {
	Replica string    `json:"replica"`
	Run     string    `json:"run"`
	Keys    time.Time `json:"keys"`
	Plans   time.Time `json:"plans"`
}

// Query encodes the times of a change as a URL query.
func (c Change) Query() string {
	q := url.Values{}
	for name, at := range map[string]time.Time{"keys": c.Keys, "plans": c.Plans} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return q.Encode()
}

// ParseChange parses the output of [Change.Query].
func ParseChange(query string) (c Change, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return Change{}, err
	}
	for name, values := range q {
		at, err := time.Parse(time.RFC3339Nano, values[0])
		switch {
		case err != nil || len(values) > 1:
			return Change{}, fmt.Errorf("%s is not a time", name)
		case name == "keys":
			c.Keys = at
		case name == "plans":
			c.Plans = at
		default:
			return Change{}, fmt.Errorf("unknown parameter %s", name)
		}
	}
	return c, nil
}

// WithAck returns the list with the applied time of the process that sent ack.
func (l List) WithAck(ack Ack, applied time.Time) List {
	l.Members = slices.Clone(l.Members)
	for i, m := range l.Members {
		if m.Replica == ack.Replica && m.Run == ack.Run && applied.After(m.Applied) {
			l.Members[i].Applied = applied
		}
	}
	return l
}
