package progress

import (
	"bytes"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	p := New(&out, func() time.Time { return now })
	err := p.Step("firestore", func() error {
		now = now.Add(1500 * time.Millisecond)
		return nil
	})
	if want := "firestore        ready after 1.5 s\n"; err != nil || out.String() != want {
		t.Errorf("said %q, %v; want %q", out.String(), err, want)
	}
}
