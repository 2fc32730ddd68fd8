package buildevent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/notify"
	"github.com/sluicegate/sluice/shared/wire"
)

// partitionKey keeps the order of a subject's events in brokers with ordering.
const partitionKey = "partitionkey"

// Sink sends outbox entries to one address.
type Sink struct {
	client     *http.Client
	url        string
	source     string
	extensions map[string]string
}

// NewSink returns a sink for K_SINK. source identifies this installation. overrides
// (K_CE_OVERRIDES) contains attributes for every event, {"extensions":{"name":"value"}}, or is
// "". Redirects are not followed.
func NewSink(address, source, overrides string) (*Sink, error) {
	s := &Sink{url: address, source: source, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if overrides == "" {
		return s, nil
	}
	var o struct {
		Extensions map[string]string `json:"extensions"`
	}
	if err := json.Unmarshal([]byte(overrides), &o); err != nil {
		return nil, fmt.Errorf("K_CE_OVERRIDES: %w", err)
	}
	for name := range o.Extensions {
		if !extensionName.MatchString(name) {
			return nil, fmt.Errorf("K_CE_OVERRIDES: %.40q is not a valid attribute name", name)
		}
	}
	s.extensions = o.Extensions
	return s, nil
}

var extensionName = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// Send sends an entry once, always with the same ID. It returns a [notify.StatusError] if the
// status is not a success.
func (s *Sink) Send(ctx context.Context, n event.OutboxEntry) error {
	e, err := Event(n, s.source)
	if err != nil {
		return err
	}
	for name, value := range s.extensions {
		e.SetExtension(name, value)
	}
	if err := notify.Post(ctx, s.client, s.url, e); err != nil {
		return fmt.Errorf("send event %s: %w", n.ID, err)
	}
	return nil
}

// Event returns an entry as a CloudEvent. The data of a deployment is a CDEvent.
func Event(n event.OutboxEntry, source string) (cloudevents.Event, error) {
	e := cloudevents.NewEvent()
	e.SetID(n.ID)
	e.SetSource(source)
	e.SetType(string(n.Type))
	e.SetSubject(n.Subject)
	e.SetTime(n.At.UTC())
	e.SetExtension(partitionKey, n.Subject)
	body := data(n)
	if n.Deployment != nil {
		cd := cdBody(n, source)
		e.SetType(cd.Context.Type)
		e.SetSubject(cd.Subject.ID)
		body = cd
	}
	if err := e.SetData(cloudevents.ApplicationJSON, body); err != nil {
		return e, fmt.Errorf("encode event %s: %w", n.ID, err)
	}
	if err := e.Validate(); err != nil {
		return e, fmt.Errorf("encode event %s: %w", n.ID, err)
	}
	return e, nil
}

func data(n event.OutboxEntry) any {
	switch {
	case n.Key != nil:
		k := n.Key
		apps, scope := apikey.ShownScope(k.Apps)
		e := wire.KeyEvent{
			KeyID: string(k.ID), Name: k.Name, Project: n.Project, Environment: n.Environment, Plan: string(k.Plan),
			Apps: apps, Scope: string(scope), Status: string(k.Status),
		}
		if k.Within > 0 {
			e.WithinDays = &k.Within
		}
		if n.Type == event.KeyExpired && k.Status == apikey.Active {
			e.Status = "expired"
		}
		if !k.ExpiresAt.IsZero() {
			expires := k.ExpiresAt.UTC()
			e.ExpiresAt = &expires
		}
		return e
	case n.Quota != nil:
		q := n.Quota
		return wire.QuotaEvent{
			KeyID: string(q.Key.ID), Name: q.Key.Name, Project: n.Project, Environment: n.Environment, Plan: string(q.Key.Plan),
			Percent: q.Percent, Quota: q.Quota, Used: q.Used, Period: string(q.Period), Mode: string(q.Mode), ResetsAt: q.ResetAt.UTC(),
		}
	case n.Gate != nil:
		return wire.GateEvent{
			App: n.Gate.App.Name, Project: n.Project, Environment: n.Environment, Host: n.Gate.Host, State: string(n.Gate.State),
		}
	case n.Gates != nil:
		return wire.GatesEvent{Checkers: n.Gates.Checkers, Since: n.Gates.Since.UTC()}
	}
	return nil
}
