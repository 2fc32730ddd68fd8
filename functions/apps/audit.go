package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// listAudit lists a project's records. Only admins see the records of earlier projects with the
// same name.
func (s *Service) listAudit(ctx context.Context, in httpapi.Scope, asked api.Audit) (wire.List[wire.AuditRecord], error) {
	q, err := newQuery(asked)
	if err != nil {
		return wire.List[wire.AuditRecord]{}, err
	}
	q.Project = in.Project.Name
	if q.From.Before(in.Project.CreatedAt) && !in.Caller.Admin {
		q.From = in.Project.CreatedAt
	}
	return s.listRecords(ctx, q, asked.Page)
}

func (s *Service) listInstallationAudit(ctx context.Context, _ httpapi.Scope, asked api.Audit) (wire.List[wire.AuditRecord], error) {
	q, err := newQuery(asked)
	if err != nil {
		return wire.List[wire.AuditRecord]{}, err
	}
	return s.listRecords(ctx, q, asked.Page)
}

// listActivity lists an environment's records for all members. Only owners see client addresses.
func (s *Service) listActivity(ctx context.Context, in httpapi.Scope, asked api.Activity) (list wire.List[wire.Activity], err error) {
	q, err := newQuery(api.Audit{From: asked.From, To: asked.To, Actor: asked.Actor})
	if err != nil {
		return list, err
	}
	if q.From.Before(in.Environment.CreatedAt) {
		q.From = in.Environment.CreatedAt
	}
	entries, next, err := s.store.Activity(ctx, in.Environment, audit.Kind(asked.Kind), q, store.Page(asked.Page))
	if err != nil {
		return list, err
	}
	list = wire.List[wire.Activity]{Items: make([]wire.Activity, len(entries)), NextPageToken: next}
	for i, e := range entries {
		if list.Items[i], err = wireActivity(e, in.Role == app.Owner); err != nil {
			return list, fmt.Errorf("show record %s: %w", e.ID, err)
		}
	}
	return list, nil
}

func wireActivity(e store.Entry, owner bool) (wire.Activity, error) {
	if !owner {
		e.Origin.Address = ""
	}
	record, err := wireRecord(e.Record)
	out := wire.Activity{AuditRecord: record, KeyName: wire.Text(e.Key.Name)}
	switch {
	case e.Deployment.Number > 0:
		out.Status, out.Message = wire.Text(e.Deployment.Status), wire.Text(e.Deployment.DisplayMessage())
	case e.Build.Number > 0:
		out.Status, out.Message = wire.Text(e.Build.Status), wire.Text(e.Build.Message)
	case e.Receipt.ID != "":
		out.Status, out.Message, out.Calls = wire.Text(e.Receipt.Result), wire.Text(e.Receipt.DisplayMessage()), wire.Ordinal(e.Receipt.Count)
	}
	return out, err
}

func (s *Service) listRecords(ctx context.Context, q audit.Query, page api.Page) (wire.List[wire.AuditRecord], error) {
	records, next, err := s.store.Records(ctx, q, store.Page(page))
	if err != nil {
		return wire.List[wire.AuditRecord]{}, err
	}
	list := wire.List[wire.AuditRecord]{Items: make([]wire.AuditRecord, len(records)), NextPageToken: next}
	for i, rec := range records {
		if list.Items[i], err = wireRecord(rec); err != nil {
			return wire.List[wire.AuditRecord]{}, fmt.Errorf("show record %s: %w", rec.ID, err)
		}
	}
	return list, nil
}

func newQuery(asked api.Audit) (q audit.Query, err error) {
	q = audit.Query{Actor: asked.Actor, Resource: asked.Resource}
	if asked.Action != "" {
		q.Actions = []audit.Action{audit.Action(asked.Action)}
	}
	if q.From, err = parseTime(asked.From, 0); err != nil {
		return audit.Query{}, err
	}
	if q.To, err = parseTime(asked.To, 24*time.Hour-time.Microsecond); err != nil {
		return audit.Query{}, err
	}
	if !q.To.IsZero() && q.To.Before(q.From) {
		return audit.Query{}, problem.New(problem.InvalidWindow, "from must not be after to.")
	}
	return q, nil
}

func parseTime(text string, intoDay time.Duration) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Add(intoDay), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}, problem.New(problem.InvalidDate, "from and to must be UTC days (YYYY-MM-DD) or RFC 3339 times.")
	}
	return at.UTC(), nil
}

func wireRecord(r audit.Record) (wire.AuditRecord, error) {
	out := wire.AuditRecord{
		ID: r.ID, At: r.At, Actor: wire.AuditActor{Kind: string(r.Actor.Kind), Name: r.Actor.Name},
		ClientAddress: r.Origin.Address, RequestID: r.Origin.ID, Action: string(r.Action), Outcome: string(r.Outcome),
		Project: r.Project, Resource: r.Resource,
	}
	var err error
	if out.Old, err = json.Marshal(r.Old); err != nil {
		return wire.AuditRecord{}, err
	}
	out.New, err = json.Marshal(r.New)
	return out, err
}

func (s *Service) recorded(ctx context.Context, c audit.Change, change func() error) error {
	c.Outcome = audit.Requested
	id, err := s.store.Record(ctx, c)
	if err != nil {
		return err
	}
	outcome := audit.Succeeded
	if err = change(); err != nil {
		outcome = audit.Failed
	}
	if unfinished := s.store.CompleteRecord(ctx, id, outcome); unfinished != nil {
		s.log.WarnContext(ctx, "complete audit record failed", "record", id, "outcome", string(outcome), "error", unfinished)
	}
	return err
}
