package usage

import "time"

const (
	// MemoryPath is the path at which a checker returns the counts that it holds in memory.
	// The request is a sealed question (package explain) with the prefixes of keys.
	MemoryPath = "/usage"

	// MaxMemoryKeys is the highest number of keys in one question.
	MaxMemoryKeys = 500
)

// Memory is a checker's response: the counts of some keys that it holds in memory.
type Memory struct {
	Run    string    `json:"run"`   // as in its canaries
	At     time.Time `json:"as_of"` // when the counts were read
	Counts []Held    `json:"counts"`
}

// Held is the usage of a key that one source has counted on one day: its total, which its
// counter has in the store, or will have.
type Held struct {
	Prefix      string `json:"prefix"`
	Source      string `json:"source"`
	Day         string `json:"day"`
	Allowed     uint64 `json:"allowed"`
	RateDenied  uint64 `json:"rate_denied"`
	QuotaDenied uint64 `json:"quota_denied"`
}
