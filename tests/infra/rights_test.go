package infra

import (
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/tests/stacktest"
)

// kept are rights that no run can be made to use on demand, and why they are needed.
func kept() map[right]string {
	const (
		apps, traefik = "apps", "traefik.io"
		listed        = "lists where the API server cannot send what is there as the beginning of a watch"
		late          = "takes back what was written for an app that was deleted in that very moment"
	)
	wiring, deploys := "sluice-wiring-environment", "sluice-deploys-environment"
	return map[right]string{
		{"sluice-webhook " + inWebhooks, "", "secrets", "list"}: listed,
		{wiring, traefik, "ingressroutes", "delete"}:            late,
		{deploys, apps, "deployments", "delete"}:                late,
	}
}

// TestRights lives an installation's life on a stack whose functions have the rights of
// infra/chart, and then asks the API server's audit log: nothing was refused, and nothing
// is granted that was not used, but for what is declared above.
func TestRights(t *testing.T) {
	s := stacktest.New(t, world)
	l := life{s: s, client: clientOf(t, adminConfig(t)), namespace: s.Project + "-" + s.Env, anew: &span{}}
	var err error
	if l.dynamic, err = dynamic.NewForConfig(adminConfig(t)); err != nil {
		t.Fatal(err)
	}
	l.run(t)
	p := readPolicy(t)
	for _, r := range unused(t, p) {
		t.Errorf("%v: granted and never used", r)
	}
	for _, e := range readAudit(t).refused {
		if l.anew.has(e) {
			continue
		}
		t.Errorf("%s was refused: %s %s in %q: %s", e.function(), e.Verb, e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ResponseStatus.Message)
	}
	used := readAudit(t).used
	for r := range kept() {
		if _, ok := p.granted[r]; !ok {
			t.Errorf("%v is declared but not granted", r)
		}
	}
	for r := range used {
		if _, ok := p.granted[r]; !ok {
			t.Errorf("%v was used, but infra/chart does not grant it", r)
		}
	}
}

// unused waits until every right that is not declared has been used, for as long as that
// may take, and gives those that were not.
func unused(t *testing.T, p policy) []right {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	late := time.After(40 * time.Second) // four ticks
	for {
		used := readAudit(t).used
		var left []right
		for r := range p.granted {
			if _, declared := kept()[r]; used[r] == 0 && !declared {
				left = append(left, r)
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return left
		}
	}
}
