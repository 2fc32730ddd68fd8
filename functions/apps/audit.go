package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// maxFilter bounds what an actor, an action or a resource to look for can be.
const maxFilter = 512

// Records keeps audit records; *store.Store implements it.
type Records interface {
	Records(ctx context.Context, q audit.Query, page store.Page) ([]audit.Record, string, error)
	Record(ctx context.Context, c audit.Change) (string, error)
	CompleteRecord(ctx context.Context, id string, o audit.Outcome) error
}

// projectAudit lists what was recorded in a project. Owners see what has happened
// since their project was made, admins also what befell earlier ones of that name.
// Problems: forbidden, invalid_date, invalid_parameter, invalid_window, invalid_page.
func (s *Service) projectAudit(w http.ResponseWriter, r *http.Request) error {
	p, caller, err := s.project(r, app.Owner)
	if err != nil {
		return err
	}
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	q.Project = p.Name
	if q.From.Before(p.CreatedAt) && !caller.Admin {
		q.From = p.CreatedAt
	}
	return s.listRecords(w, r, q)
}

// installationAudit lists what was recorded of no project, for admins. Problems: as
// projectAudit.
func (s *Service) installationAudit(w http.ResponseWriter, r *http.Request) error {
	caller, err := s.guard.Caller(r)
	if err != nil {
		return err
	}
	if !caller.Admin {
		return problem.Of(problem.Forbidden)
	}
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	return s.listRecords(w, r, q)
}

func (s *Service) listRecords(w http.ResponseWriter, r *http.Request, q audit.Query) error {
	page, err := readPage(r)
	if err != nil {
		return err
	}
	records, next, err := s.records.Records(r.Context(), q, page)
	if err != nil {
		return err
	}
	list := wire.List[wire.AuditRecord]{Items: make([]wire.AuditRecord, len(records)), NextPageToken: next}
	for i, rec := range records {
		if list.Items[i], err = wireRecord(rec); err != nil {
			return fmt.Errorf("show record %s: %w", rec.ID, err)
		}
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// readQuery reads ?from=, ?to=, ?actor=, ?action= and ?resource=. A query that cannot
// be read is refused: part of it would be lost, and more be shown than was asked for.
func readQuery(r *http.Request) (audit.Query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return audit.Query{}, problem.Of(problem.InvalidParameter).Because(err)
	}
	for _, name := range []string{"from", "to", "actor", "action", "resource"} {
		if given := values[name]; len(given) > 1 || len(values.Get(name)) > maxFilter {
			return audit.Query{}, problem.New(problem.InvalidParameter, "%s can be given once, in at most %d characters.", name, maxFilter)
		}
	}
	q := audit.Query{Actor: values.Get("actor"), Action: audit.Action(values.Get("action")), Resource: values.Get("resource")}
	if q.From, err = readMoment(values.Get("from"), 0); err != nil {
		return audit.Query{}, err
	}
	if q.To, err = readMoment(values.Get("to"), 24*time.Hour-time.Microsecond); err != nil {
		return audit.Query{}, err
	}
	if !q.To.IsZero() && q.To.Before(q.From) {
		return audit.Query{}, problem.New(problem.InvalidWindow, "from must not be after to.")
	}
	return q, nil
}

// readMoment reads an RFC 3339 time, or a UTC day, which stands for the moment that
// is so long after its begin. Problem: invalid_date.
func readMoment(text string, intoDay time.Duration) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day.Add(intoDay), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}, problem.New(problem.InvalidDate, "from and to are UTC days, YYYY-MM-DD, or RFC 3339 times.")
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

// recorded makes a change of what is not kept in the store, with its record around
// it: the record is there before the change is begun and says afterwards what came of
// it.
func (s *Service) recorded(ctx context.Context, c audit.Change, change func() error) error {
	c.Outcome = audit.Requested
	id, err := s.records.Record(ctx, c)
	if err != nil {
		return err
	}
	outcome := audit.Succeeded
	if err = change(); err != nil {
		outcome = audit.Failed
	}
	if unfinished := s.records.CompleteRecord(ctx, id, outcome); unfinished != nil {
		s.log.WarnContext(ctx, "audit record not completed", "record", id, "outcome", string(outcome), "error", unfinished)
	}
	return err
}
