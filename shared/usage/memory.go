package usage

import "time"

const (
	// MemoryPath is the path at which a checker returns its counts in memory. The request is a
	// signed query (package checkers).
	MemoryPath = "/usage"

	// MaxMemoryKeys is the maximum number of keys in a query.
	MaxMemoryKeys = 500
)

// Memory is a checker's response with counts in memory.
type Memory struct {
	Run    string    `json:"run"` // as in its canaries
	At     time.Time `json:"as_of"`
	Counts []Held    `json:"counts"`
}

// Held is a source's total for a key on one day. The source may not have stored it yet.
type Held struct {
	Prefix      string `json:"prefix"`
	Source      string `json:"source"`
	Day         string `json:"day"`
	Allowed     uint64 `json:"allowed"`
	RateDenied  uint64 `json:"rate_denied"`
	QuotaDenied uint64 `json:"quota_denied"`
}
