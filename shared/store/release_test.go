package store

import (
	"slices"
	"testing"
	"time"
)

// A process is lost if neither its lease nor a canary was written for 95 s. A process of an earlier
// version, without a time in the lease, is never lost.
func TestLostProcesses(t *testing.T) {
	t.Parallel()
	read := time.Date(2026, 3, 17, 5, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return read.Add(-d) }
	d := leaseDoc{
		Held: map[string]int64{ended: 1000, "lost": 1, "silent": 2, "fresh": 4, "starts": 8, "leases": 16, "earlier": 32},
		Since: map[string]time.Time{
			"lost": ago(lostAfter), "silent": ago(time.Hour), "fresh": ago(time.Hour), "starts": ago(lostAfter - 1), "leases": ago(time.Second),
		},
	}
	written := map[string]time.Time{
		"silent": ago(lostAfter), "fresh": ago(lostAfter - 1), "leases": ago(time.Hour), "earlier": ago(time.Hour),
	}
	r, lost := d.lost(written, read)
	if !slices.Equal(lost, []string{"lost", "silent"}) || r.Requests != 3 || r.Held != 4+8+16+32 {
		t.Errorf("got lost processes %v, %+v", lost, r)
	}
}
