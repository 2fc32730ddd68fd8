package chaos

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/report"
)

var (
	book  = report.Open("faults")
	table = book.Table("Fault table", "Under each fault, and once it is over, what must happen to each surface. "+
		"Under every fault also: nobody gets in without a key, a revoked key is refused after the ceiling (lowered to 10 s here), an app without a gate is never touched, "+
		"and once it is over all is as before.",
		[]string{"fault", "surface", "must", "verdict"}, "seen")
)

// usual returns the names of the faults in "make test": one each of the store, the API server,
// a checker and the network. "make test-long" tries all faults.
func usual() []string {
	return []string{
		"store stalled without closing", "API server down", "one checker killed", "network cut between one checker and the store",
	}
}

// TestFaults is the fault table. Run it last: its last fault empties the store.
func TestFaults(t *testing.T) {
	if !long.Enabled() {
		book.Reduce()
	}
	s := newScene(t)
	var rows []row
	selected := 0
	for _, f := range slices.Concat(storeFaults(), clusterFaults(), checkerFaults(), machineFaults(), []fault{sinkAway(), issuerIsAway()}, lastFaults()) {
		if !long.Enabled() && !slices.Contains(usual(), f.name) {
			continue
		}
		selected++
		t.Run(f.name, func(t *testing.T) { rows = append(rows, f.run(t, s)...) })
	}
	if selected < len(usual()) { // a fault has another name now
		t.Errorf("got %d faults, want at least %q", selected, usual())
	}
	for _, r := range rows {
		t.Log(r)
		table.Row([]string{r.fault, r.surface, r.must, r.verdict()}, strings.Join(r.notes, "; "))
	}
}
