package chaos

import (
	"slices"
	"testing"
)

// TestFaults is the fault table. Run it last: its last fault empties the store.
func TestFaults(t *testing.T) {
	s := newScene(t)
	var rows []row
	for _, f := range slices.Concat(storeFaults(), clusterFaults(), checkerFaults(), machineFaults(), lastFaults()) {
		t.Run(f.name, func(t *testing.T) { rows = append(rows, f.run(t, s)...) })
	}
	for _, r := range rows {
		t.Log(r)
	}
}
