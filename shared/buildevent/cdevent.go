package buildevent

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/nudge"
)

// specVersion is the version of CDEvents that the shapes below belong to.
const specVersion = "0.4.1"

// The types of CDEvents that are sent. CDEvents has no event for a service that
// could not be deployed; what it has is the incident.
const (
	serviceDeployed   = "dev.cdevents.service.deployed.0.2.0"
	serviceUpgraded   = "dev.cdevents.service.upgraded.0.2.0"
	serviceRolledBack = "dev.cdevents.service.rolledback.0.2.0"
	incidentDetected  = "dev.cdevents.incident.detected.0.2.0"
)

type cdEvent struct {
	Context     cdContext `json:"context"`
	Subject     cdSubject `json:"subject"`
	CustomData  cdCustom  `json:"customData"`
	ContentType string    `json:"customDataContentType"`
}

type cdContext struct {
	Version   string    `json:"version"`
	ID        string    `json:"id"`
	Source    string    `json:"source"`
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
}

type cdSubject struct {
	ID      string    `json:"id"`
	Source  string    `json:"source"`
	Type    string    `json:"type"` // service or incident
	Content cdContent `json:"content"`
}

type cdContent struct {
	Description string       `json:"description,omitempty"` // of an incident
	Environment cdReference  `json:"environment"`
	Service     *cdReference `json:"service,omitempty"` // of an incident
	ArtifactID  string       `json:"artifactId"`        // a package URL
}

type cdReference struct {
	ID     string `json:"id"`
	Source string `json:"source"`
}

// cdCustom is what CDEvents has no place for.
type cdCustom struct {
	Project  string `json:"project"`
	App      string `json:"app"`
	Revision int64  `json:"revision"`
	Image    string `json:"image"`
	Digest   string `json:"digest,omitempty"`
	Commit   string `json:"commit,omitempty"`
	Trigger  string `json:"trigger"`
	Actor    string `json:"actor,omitempty"`
	Source   int64  `json:"source_revision,omitempty"`
	Status   string `json:"status"`
	Message  string `json:"message,omitempty"`
}

// Sink sends announcements to one address.
type Sink struct {
	client *http.Client
	url    string
	source string
}

// NewSink makes a sink of the address that takes CloudEvents, as Knative gives it in
// K_SINK; source names this installation in the events.
func NewSink(address, source string) *Sink {
	return &Sink{client: &http.Client{}, url: address, source: source}
}

// Send sends an announcement as a CDEvent, once. The same announcement has the same
// id each time, so that a receiver can tell a repetition.
func (s *Sink) Send(ctx context.Context, n deploy.Announcement) error {
	e, err := Event(n, s.source)
	if err != nil {
		return err
	}
	if err := nudge.Post(ctx, s.client, s.url, e); err != nil {
		return fmt.Errorf("send announcement %s: %w", n.ID, err)
	}
	return nil
}

// Event writes an announcement as a CloudEvent that holds a CDEvent.
func Event(n deploy.Announcement, source string) (cloudevents.Event, error) {
	body := cdBody(n, source)
	e := cloudevents.NewEvent()
	e.SetID(body.Context.ID)
	e.SetSource(source)
	e.SetType(body.Context.Type)
	e.SetSubject(body.Subject.ID)
	e.SetTime(body.Context.Timestamp)
	if err := e.SetData(cloudevents.ApplicationJSON, body); err != nil {
		return e, fmt.Errorf("write announcement %s: %w", n.ID, err)
	}
	if err := e.Validate(); err != nil {
		return e, fmt.Errorf("write announcement %s: %w", n.ID, err)
	}
	return e, nil
}

func cdBody(n deploy.Announcement, source string) cdEvent {
	r := n.Revision
	service := n.App.Namespace + "/" + n.App.Name
	content := cdContent{
		Environment: cdReference{ID: n.App.Namespace, Source: source},
		ArtifactID:  packageURL(r.Image, r.Digest),
	}
	e := cdEvent{
		Context: cdContext{Version: specVersion, ID: n.ID, Source: source, Type: cdType(n.Outcome), Timestamp: n.At.UTC()},
		Subject: cdSubject{ID: service, Source: source, Type: "service", Content: content},
		CustomData: cdCustom{
			Project: n.Project, App: n.App.Name, Revision: r.Number, Image: r.Image, Digest: r.Digest, Commit: r.Commit,
			Trigger: string(r.Trigger), Actor: r.Actor, Source: r.Source, Status: string(r.Status), Message: r.Says(),
		},
		ContentType: cloudevents.ApplicationJSON,
	}
	if n.Outcome == deploy.Broke {
		e.Subject.ID = fmt.Sprintf("%s/revisions/%d", service, r.Number)
		e.Subject.Type = "incident"
		e.Subject.Content.Description = r.Says()
		e.Subject.Content.Service = &cdReference{ID: service, Source: source}
	}
	return e
}

func cdType(o deploy.Outcome) string {
	switch o {
	case deploy.Deployed:
		return serviceDeployed
	case deploy.RolledBack:
		return serviceRolledBack
	case deploy.Broke:
		return incidentDetected
	case deploy.Upgraded:
	}
	return serviceUpgraded
}

// packageURL names an image as a package URL of type oci, e.g.
// "pkg:oci/hello@sha256%3A9f86…?repository_url=registry.example.com%2Fhello&tag=v2".
func packageURL(image, digest string) string {
	ref, err := name.ParseReference(image, name.WithDefaultTag(""))
	if err != nil { // it was checked when it was recorded
		return "pkg:oci/" + url.PathEscape(image)
	}
	if d, ok := ref.(name.Digest); ok {
		digest = d.DigestStr()
	}
	repository := ref.Context().Name()
	purl := "pkg:oci/" + url.PathEscape(repository[strings.LastIndex(repository, "/")+1:])
	if digest != "" {
		purl += "@" + url.QueryEscape(digest)
	}
	q := url.Values{"repository_url": {repository}}
	if tag, ok := ref.(name.Tag); ok {
		q.Set("tag", tag.TagStr())
	}
	return purl + "?" + q.Encode()
}
