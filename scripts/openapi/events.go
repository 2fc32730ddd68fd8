package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	openapi "github.com/swaggest/openapi-go/openapi31"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/buildevent"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/wire"
)

type eventDoc struct {
	summary string // at most 80 characters, without a period
	details string // sentences; "" if the summary suffices
	data    reflect.Type
}

// events contains all event types. OpenAPI calls them webhooks.
//
//nolint:gochecknoglobals // a constant table
var events = map[event.Type]eventDoc{
	event.KeyCreated:    {"Key issued", "", reflect.TypeFor[wire.KeyEvent]()},
	event.KeyRotated:    {"Secret of a key replaced", "The previous secret stays valid for the requested grace period.", reflect.TypeFor[wire.KeyEvent]()},
	event.KeyDisabled:   {"Key disabled", "", reflect.TypeFor[wire.KeyEvent]()},
	event.KeyEnabled:    {"Key enabled again", "", reflect.TypeFor[wire.KeyEvent]()},
	event.KeyRevoked:    {"Key revoked permanently", "", reflect.TypeFor[wire.KeyEvent]()},
	event.KeyExpiring:   {"Expiry of a key in 14 days or in one day", "The event is not sent if the expiry was closer than that when it was set.", reflect.TypeFor[wire.KeyEvent]()},
	event.KeyExpired:    {"Key expired", "", reflect.TypeFor[wire.KeyEvent]()},
	event.KeyLeaked:     {"Secret of a key reported as leaked", "", reflect.TypeFor[wire.KeyEvent]()},
	event.QuotaReached:  {"80% or 100% of a key's quota used", "", reflect.TypeFor[wire.QuotaEvent]()},
	event.GateEngaged:   {"Gate of an app verified to be in place", "The event follows when the gate was turned on, or after a disruption.", reflect.TypeFor[wire.GateEvent]()},
	event.GateReleased:  {"Gate of an app verified to be removed", "The event follows when the gate was turned off. It is not sent when an app is deleted.", reflect.TypeFor[wire.GateEvent]()},
	event.GateDenying:   {"Denial of all gated requests", "All gates return 503 gate_unavailable because no checker can prove that its view is fresh. This is detected within three minutes. It is not detected while the store is unavailable.", reflect.TypeFor[wire.GatesEvent]()},
	event.GateRecovered: {"End of the denial of all gated requests", "At least one checker can allow requests again.", reflect.TypeFor[wire.GatesEvent]()},
}

func (d *document) addEvents(spec *openapi.Spec) error {
	for _, t := range event.Types() {
		of, ok := events[t]
		if !ok {
			return fmt.Errorf("event %s has no description", t)
		}
		schema, err := d.of(of.data)
		if err != nil {
			return err
		}
		sample, err := sampleOf(t)
		if err != nil {
			return err
		}
		body := (&openapi.RequestBody{}).WithRequired(true).WithContentItem("application/json", *(&openapi.MediaType{Schema: schema}).WithExample(sample))
		taken := openapi.ResponseOrReference{Response: (&openapi.Response{Description: "The event is accepted. After any other response, it is retried for one day."})}
		op := (&openapi.Operation{}).WithID(operationOf(t)).WithSummary(of.summary).WithSecurity(map[string][]string{}).
			WithRequestBody(openapi.RequestBodyOrReference{RequestBody: body}).
			WithResponses(*(&openapi.Responses{}).WithMapOfResponseOrReferenceValuesItem("2XX", taken))
		if of.details != "" {
			op.WithDescription(of.details)
		}
		spec.WithWebhooksItem(string(t), openapi.PathItemOrReference{PathItem: (&openapi.PathItem{}).WithPost(*op)})
	}
	return nil
}

// operationOf returns the operation ID of an event type, e.g. "onKeyCreated".
func operationOf(t event.Type) string {
	name := "on"
	for part := range strings.SplitSeq(strings.TrimPrefix(string(t), "dev.sluicegate."), ".") {
		if part != "v1" {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return name
}

func sampleOf(t event.Type) (any, error) {
	at := time.Date(2026, 3, 14, 9, 30, 0, 0, time.UTC)
	k := apikey.Key{
		Prefix: "ab12cd34", Project: "shop", Environment: "prod", Namespace: "shop-prod", Plan: "plan-starter", Name: "ci", Status: apikey.Active,
		Apps: []string{"hello"}, ExpiresAt: at.Add(14 * 24 * time.Hour),
	}
	n := event.OfKey(t, k, at)
	switch t {
	case event.KeyDisabled:
		k.Status = apikey.Disabled
		n = event.OfKey(t, k, at)
	case event.KeyRevoked:
		k.Status = apikey.Revoked
		n = event.OfKey(t, k, at)
	case event.KeyExpiring:
		n = event.Expiries()[0].Of(k)
	case event.QuotaReached:
		n = event.OfQuota(k, plan.Limits{Rate: 10, Burst: 20, Quota: 100_000, Period: plan.Month}, 80, 80_412, "term", at.AddDate(0, 0, 17).Truncate(24*time.Hour), at)
	case event.GateEngaged, event.GateReleased:
		a := app.App{Name: "hello", Project: "shop", Environment: "prod", Namespace: "shop-prod", Host: "hello-shop-prod.apps.example.com", Gate: app.Gate{State: app.Engaged, Since: at}}
		if t == event.GateReleased {
			a.Gate.State = app.Ungated
		}
		n, _ = event.OfGate(a, app.Pending)
	case event.GateDenying, event.GateRecovered:
		n = event.OfGates(t, event.Gates{Checkers: 2, Since: at}, at)
	case event.KeyCreated, event.KeyRotated, event.KeyEnabled, event.KeyExpired, event.KeyLeaked:
	}
	sent, err := buildevent.Event(n, "/sluice/deploys")
	if err != nil {
		return nil, err
	}
	var data any
	err = json.Unmarshal(sent.Data(), &data)
	return data, err
}
