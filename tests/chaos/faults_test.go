package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/report"
)

var (
	book         = report.Open("faults")
	expectations = book.Table("Default expectations",
		"A *surface* is a part of the product, such as the gate, that is tested under each fault. "+
			"During and after a fault, each surface meets these expectations, unless the table of the fault states another one. "+
			"Under every fault, requests without a key are denied, and apps without a gate are unaffected. "+
			"A revoked key is denied after the ceiling (10 s here) at the latest. "+
			"After the fault, everything works as before. "+
			"Requests beyond the quota get 429, or 503 while the usage is unknown. "+
			"For acknowledgement, the measured values are the numbers of responses with 200/202/503. "+
			"For the shared rate, they are the share of the rate that is allowed after the fault, and the longest denial during it.",
		[]string{"surface", "expected"})
)

const byDefault = "default"

func defaults() [surfaces]string {
	return [surfaces]string{
		gate:            "requests with the key are allowed; a revocation takes effect within the ceiling",
		management:      "a key can be created",
		webhook:         "a call deploys once, even if sent again after the fault",
		deploys:         "a deployment becomes live",
		rollup:          "a run succeeds; every allowed request is counted once",
		quota:           fmt.Sprintf("the replicas together allow at most the quota plus their requests in MAX_UNSHARED (%v)", maxUnshared),
		acknowledgement: "both replicas confirm each waiting change; then neither allows a request with its key",
		sharedRates: fmt.Sprintf("no replica exceeds rate and burst; deciding replicas deny for at most %v at a time; "+
			"afterwards both together allow the rate", refusedFor),
		events:  "all changes of keys are sent, in order, within a minute after the fault",
		keyless: "deploys or returns 503; sent again with a new token, deploys once; a reused token gets 401",
	}
}

// usual returns the faults in "make test". "make test-long" tries all.
func usual() []string {
	return []string{
		"Store hangs", "API server down", "One checker killed", "One checker cut off from the store",
	}
}

// TestFaults must run last: its last fault empties the store.
func TestFaults(t *testing.T) {
	if !long.Enabled() {
		book.Reduce()
	}
	s := newScene(t)
	for i, text := range defaults() {
		expectations.Row([]string{surface(i).String(), text})
	}
	selected := 0
	for _, f := range slices.Concat(storeFaults(), clusterFaults(), checkerFaults(), machineFaults(), []fault{sinkAway(), issuerIsAway()}, lastFaults()) {
		if !long.Enabled() && !slices.Contains(usual(), f.name) {
			continue
		}
		selected++
		t.Run(f.name, func(t *testing.T) {
			table := book.Table(f.name, "", []string{"surface", "expected", "verdict"}, "measured")
			for _, r := range f.run(t, s) {
				t.Log(r)
				table.Row([]string{r.surface, r.want, r.verdict()}, strings.Join(r.notes, "; "))
			}
		})
	}
	if selected < len(usual()) { // renamed fault
		t.Errorf("got %d faults, want at least %q", selected, usual())
	}
}
