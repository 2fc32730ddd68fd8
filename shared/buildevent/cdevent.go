package buildevent

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
)

const specVersion = "0.4.1"

// CDEvents has no event for a failed deployment, so an incident is sent.
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
	ArtifactID  string       `json:"artifactId"`        // package URL
}

type cdReference struct {
	ID     string `json:"id"`
	Source string `json:"source"`
}

// cdCustom holds the data without a field in CDEvents.
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

func cdBody(n event.OutboxEntry, source string) cdEvent {
	d := n.Deployment
	r := d.Revision
	service := d.App.Namespace + "/" + d.App.Name
	content := cdContent{
		Environment: cdReference{ID: d.App.Namespace, Source: source},
		ArtifactID:  packageURL(r.Image, r.Digest),
	}
	e := cdEvent{
		Context: cdContext{Version: specVersion, ID: n.ID, Source: source, Type: cdType(d.Outcome), Timestamp: n.At.UTC()},
		Subject: cdSubject{ID: service, Source: source, Type: "service", Content: content},
		CustomData: cdCustom{
			Project: n.Project, App: d.App.Name, Revision: r.Number, Image: r.Image, Digest: r.Digest, Commit: r.Commit,
			Trigger: string(r.Trigger), Actor: r.Actor, Source: r.Source, Status: string(r.Status), Message: r.DisplayMessage(),
		},
		ContentType: cloudevents.ApplicationJSON,
	}
	if d.Outcome == deploy.Broke {
		e.Subject.ID = fmt.Sprintf("%s/revisions/%d", service, r.Number)
		e.Subject.Type = "incident"
		e.Subject.Content.Description = r.DisplayMessage()
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

// packageURL returns a package URL, e.g.
// "pkg:oci/hello@sha256%3A9f86…?repository_url=registry.example.com%2Fhello&tag=v2".
func packageURL(image, digest string) string {
	ref, err := name.ParseReference(image, name.WithDefaultTag(""))
	if err != nil { // cannot happen: checked when recorded
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
