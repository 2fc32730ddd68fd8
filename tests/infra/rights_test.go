package infra

import (
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// unexercised returns the rights that no run can use on demand, and why they exist.
func unexercised() map[right]string {
	const (
		apps, traefik = "apps", "traefik.io"
		listed        = "lists if the API server cannot start a watch with the existing objects"
		late          = "deletes objects written for an app that was deleted concurrently"
	)
	wiring, deploys := "sluice-wiring-environment", "sluice-deploys-environment"
	return map[right]string{
		{"sluice-webhook " + inWebhooks, "", "secrets", "list"}: listed,
		{wiring, traefik, "ingressroutes", "delete"}:            late,
		{deploys, apps, "deployments", "delete"}:                late,
	}
}

// TestGrantedRightsAreUsed runs the scenario of [life]. No call may be denied, and no right outside
// [unexercised] may be unused.
func TestGrantedRightsAreUsed(t *testing.T) {
	s := stacktest.New(t, world)
	l := life{s: s, client: clientOf(t, adminConfig(t)), namespace: s.Project + "-" + s.Env, recreated: &interval{}}
	var err error
	if l.dynamic, err = dynamic.NewForConfig(adminConfig(t)); err != nil {
		t.Fatal(err)
	}
	l.run(t)
	p := readPolicy(t)
	for _, r := range unused(t, p) {
		t.Errorf("%v is granted but never used", r)
	}
	for _, e := range readAudit(t).denied {
		if l.recreated.covers(e) {
			continue
		}
		t.Errorf("%s was denied: %s %s in %q: %s", e.function(), e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ResponseStatus.Message)
	}
	used := readAudit(t).used
	for r := range unexercised() {
		if _, ok := p.granted[r]; !ok {
			t.Errorf("%v is listed in unexercised() but not granted", r)
		}
	}
	for r := range used {
		if _, ok := p.granted[r]; !ok {
			t.Errorf("%v was used, but infra/chart does not grant it", r)
		}
	}
}

func unused(t *testing.T, p policy) []right {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	late := time.After(40 * time.Second) // four periods of the timer
	for {
		used := readAudit(t).used
		var rest []right
		for r := range p.granted {
			if _, declared := unexercised()[r]; used[r] == 0 && !declared {
				rest = append(rest, r)
			}
		}
		if len(rest) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return rest
		}
	}
}
