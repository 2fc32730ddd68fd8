package hook

import (
	"strings"

	"github.com/sluicegate/sluice/shared/problem"
)

// Lengths of a commit, in hexadecimal digits: git abbreviates to no less than 4,
// and the hashes of SHA-256 repositories have 64.
const (
	minCommit = 4
	maxCommit = 64
)

// ParseCommit takes a whole or abbreviated commit hash and gives it in lower case,
// e.g. "9fceb02d0ae598e95dc970b74767f19372d61af8"; "" stays "". Problem:
// invalid_commit.
func ParseCommit(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	s = strings.ToLower(s)
	if len(s) < minCommit || len(s) > maxCommit || strings.Trim(s, "0123456789abcdef") != "" {
		return "", problem.Of(problem.InvalidCommit)
	}
	return s, nil
}

// zeroCommit tells whether s is the hash that git uses for "none", as after of a
// push that deletes.
func zeroCommit(s string) bool { return s != "" && strings.Trim(s, "0") == "" }
