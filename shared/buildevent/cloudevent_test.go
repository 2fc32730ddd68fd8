package buildevent

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/tests/check"
)

func aKey() apikey.Key {
	return apikey.Key{
		Prefix: "ab12cd34", Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-starter", Name: "ci", Status: apikey.Active,
		Secret: apikey.Hash{1, 2, 3}, CreatedBy: "ada", RevokedBy: "ada", ExpiresAt: time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC),
	}
}

// Events contain no secrets and no actors (promise D13).
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	gated := app.App{
		Name: "hello", Project: "shop", Environment: "prod", Namespace: "shop-prod", Host: "hello.example.com",
		Gate: app.Gate{State: app.Engaged, Since: at},
	}
	gate, _ := event.OfGate(gated, app.Pending)
	soft := plan.Limits{Rate: 1, Burst: 1, Quota: 1000, Period: plan.Day}
	const key = `"key_id":"key-ab12cd34","name":"ci","project":"shop","environment":"prod","plan":"plan-starter"`
	tests := []struct {
		n             event.OutboxEntry
		id, kind, sub string // generated if id is ""
		data          string
	}{
		{
			event.OfKey(event.KeyCreated, aKey(), at), "", "dev.sluicegate.key.created.v1", "key-ab12cd34",
			`{` + key + `,"apps":[],"scope":"all","status":"active","expires_at":"2026-03-28T12:00:00Z","within_days":null}`,
		},
		{
			event.Expiries()[0].Of(aKey()), "key-ab12cd34.expiring-14.1774699200000000", "dev.sluicegate.key.expiring.v1", "key-ab12cd34",
			`{` + key + `,"apps":[],"scope":"all","status":"active","expires_at":"2026-03-28T12:00:00Z","within_days":14}`,
		},
		{
			event.Expiries()[2].Of(aKey()), "key-ab12cd34.expired.1774699200000000", "dev.sluicegate.key.expired.v1", "key-ab12cd34",
			`{` + key + `,"apps":[],"scope":"all","status":"expired","expires_at":"2026-03-28T12:00:00Z","within_days":null}`,
		},
		{
			event.OfQuota(aKey(), soft, 80, 812, "2026-03-14.day.ab12cd34", at.Add(12*time.Hour), at), "key-ab12cd34.quota-80.2026-03-14.day.ab12cd34",
			"dev.sluicegate.quota.reached.v1", "key-ab12cd34",
			`{` + key + `,"percent":80,"quota":1000,"used":812,"quota_period":"day","quota_mode":"soft","resets_at":"2026-03-15T00:00:00Z"}`,
		},
		{
			gate, "", "dev.sluicegate.gate.engaged.v1", "shop-prod.hello",
			`{"app":"hello","project":"shop","environment":"prod","host":"hello.example.com","state":"engaged"}`,
		},
		{
			event.OfGates(event.GateDenying, event.Gates{Checkers: 2, Since: at}, at), "gates.denying.1773489600000000",
			"dev.sluicegate.gate.denying.v1", "installation", `{"checkers":2,"since":"2026-03-14T12:00:00Z"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			e, err := Event(tt.n, "/sluice")
			check.OK(t, err)
			if tt.id == "" {
				tt.id = tt.n.ID
			}
			want := []string{tt.id, tt.kind, tt.sub, "/sluice", "1.0", tt.sub}
			got := []string{e.ID(), e.Type(), e.Subject(), e.Source(), e.SpecVersion(), e.Extensions()["partitionkey"].(string)}
			check.Equal(t, "attributes", want, got)
			var is, expected any
			check.OK(t, errors.Join(json.Unmarshal(e.Data(), &is), json.Unmarshal([]byte(tt.data), &expected)))
			check.Equal(t, "data", expected, is)
		})
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	const overrides = `{"extensions":{"cluster":"eu1"}}`
	for _, code := range []int{http.StatusAccepted, http.StatusServiceUnavailable, http.StatusBadRequest, http.StatusTemporaryRedirect} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				t.Error("the sink follows a redirect")
			}
			if r.Header.Get("Ce-Id") != "ID1" || r.Header.Get("Ce-Type") != serviceDeployed || r.Header.Get("Ce-Cluster") != "eu1" {
				t.Errorf("unexpected headers: %v", r.Header)
			}
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
		}))
		t.Cleanup(server.Close)
		sink, err := NewSink(server.URL, "/sluice", overrides)
		check.OK(t, err)
		err = sink.Send(t.Context(), announcement(deploy.Deployed))
		var answer *notify.StatusError
		switch {
		case code == http.StatusAccepted && err != nil, code != http.StatusAccepted && !errors.As(err, &answer):
			t.Errorf("status %d: got %v", code, err)
		case answer != nil && (answer.Status != code || answer.Again != "7"):
			t.Errorf("status %d: got %+v", code, answer)
		}
	}
	for _, wrong := range []string{"{", `{"extensions":{"Bad Name":"x"}}`} {
		if _, err := NewSink("http://sink", "/sluice", wrong); err == nil {
			t.Errorf("accepted the overrides %s", wrong)
		}
	}
}
