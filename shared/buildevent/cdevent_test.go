package buildevent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/tests/check"
)

func announcement(outcome deploy.Outcome) event.OutboxEntry {
	return event.OutboxEntry{
		ID: "ID1", Subject: "shop-prod.hello", Project: "shop", Environment: "prod",
		Deployment: &event.Deployment{
			App: app.Ref{Namespace: "shop-prod", Name: "hello"}, Outcome: outcome,
			Revision: deploy.Revision{
				Number: 3, Image: "registry.example.com/shop/hello:v2", Digest: "sha256:9f86", Commit: "abc",
				Trigger: deploy.Webhook, Actor: "webhook", Status: deploy.Live,
			},
		},
		At: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC),
	}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	e, err := Event(announcement(deploy.Upgraded), "/sluice/deploys")
	check.OK(t, err)
	if e.ID() != "ID1" || e.Type() != serviceUpgraded || e.Source() != "/sluice/deploys" || e.Subject() != "shop-prod/hello" {
		t.Errorf("attributes: %v", e.Context)
	}
	const want = `{
		"context":{"version":"0.4.1","id":"ID1","source":"/sluice/deploys","type":"dev.cdevents.service.upgraded.0.2.0","timestamp":"2026-03-14T12:00:00Z"},
		"subject":{"id":"shop-prod/hello","source":"/sluice/deploys","type":"service","content":{
			"environment":{"id":"shop-prod","source":"/sluice/deploys"},
			"artifactId":"pkg:oci/hello@sha256%3A9f86?repository_url=registry.example.com%2Fshop%2Fhello&tag=v2"}},
		"customData":{"project":"shop","app":"hello","revision":3,"image":"registry.example.com/shop/hello:v2","digest":"sha256:9f86",
			"commit":"abc","trigger":"webhook","actor":"webhook","status":"live"},
		"customDataContentType":"application/json"}`
	var is, expected any
	check.OK(t, json.Unmarshal(e.Data(), &is))
	check.OK(t, json.Unmarshal([]byte(want), &expected))
	check.Equal(t, "data", expected, is)
}

func TestEventTypes(t *testing.T) {
	t.Parallel()
	want := map[deploy.Outcome]string{
		deploy.Deployed: "dev.cdevents.service.deployed.0.2.0", deploy.Upgraded: "dev.cdevents.service.upgraded.0.2.0",
		deploy.RolledBack: "dev.cdevents.service.rolledback.0.2.0", deploy.Broke: "dev.cdevents.incident.detected.0.2.0",
	}
	got := map[deploy.Outcome]string{}
	for outcome := range want {
		e, err := Event(announcement(outcome), "/sluice")
		check.OK(t, err)
		got[outcome] = e.Type()
	}
	check.Equal(t, "types", want, got)
}
