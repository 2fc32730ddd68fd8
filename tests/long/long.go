// Package long selects the size of heavy tests: "make test" is reduced, "make test-long" is
// full.
package long

import (
	"os"
	"testing"
)

const variable = "SLUICE_LONG"

// Enabled reports whether tests run at full size.
func Enabled() bool { return os.Getenv(variable) != "" }

// Pick returns full if tests run at full size, and reduced otherwise.
func Pick[T any](reduced, full T) T {
	if Enabled() {
		return full
	}
	return reduced
}

// Only skips a test that runs only at full size.
func Only(t testing.TB) {
	t.Helper()
	if !Enabled() {
		t.Skip("runs only in make test-long")
	}
}
