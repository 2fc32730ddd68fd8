package inforce

import (
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Path is where a checker says what it has applied.
const Path = "/applied"

// Patience is how long it waits for what is asked for, before it says what it has.
const Patience = time.Second

// Word is what a member says when it is asked: up to when it has applied each data type,
// by the store's clock.
type Word struct {
	Replica string    `json:"replica"`
	Run     string    `json:"run"`
	Keys    time.Time `json:"keys"`
	Plans   time.Time `json:"plans"`
}

// Query asks for a change.
func (c Change) Query() string {
	q := url.Values{}
	for name, at := range map[string]time.Time{"keys": c.Keys, "plans": c.Plans} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return q.Encode()
}

// ParseWord reads what [Change.Query] has written.
func ParseWord(query string) (c Change, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return Change{}, err
	}
	for name, values := range q {
		at, err := time.Parse(time.RFC3339Nano, values[0])
		switch {
		case err != nil || len(values) > 1:
			return Change{}, fmt.Errorf("%s is no time", name)
		case name == "keys":
			c.Keys = at
		case name == "plans":
			c.Plans = at
		default:
			return Change{}, fmt.Errorf("there is no %s", name)
		}
	}
	return c, nil
}

// Heard gives the list with what a member has said of it: up to when it has applied this
// data type. It says so for its own life alone: another process of its name may be gone.
func (l List) Heard(w Word, applied time.Time) List {
	l.Members = slices.Clone(l.Members)
	for i, m := range l.Members {
		if m.Replica == w.Replica && m.Run == w.Run && applied.After(m.Applied) {
			l.Members[i].Applied = applied
		}
	}
	return l
}
