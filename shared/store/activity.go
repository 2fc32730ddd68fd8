package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// Entry is an audit record with the current state of its object. It can also be a webhook call that
// changed nothing, with a record made from its receipt.
type Entry struct {
	audit.Record

	Deployment deploy.Revision // zero if there is none or it is deleted
	Build      deploy.Build
	Key        apikey.Key
	Receipt    hook.Receipt
}

// sameChange is the maximum difference between the times of a record and of its revision or build,
// which are set by two clocks.
const sameChange = time.Minute

// Activity lists the events of an environment, newest first. It lists one kind of events, or all if
// kind is "". q filters them by time and actor.
func (s *Store) Activity(ctx context.Context, e app.Environment, kind audit.Kind, q audit.Query, page Page) (entries []Entry, next string, err error) {
	q.Project, q.Resource, q.Actions = e.Project, environmentPath(e.Project, e.Name), kind.Actions()
	if kind != audit.Calls {
		records, more, err := s.Records(ctx, q, page)
		if err != nil {
			return nil, "", err
		}
		if entries, err = s.follow(ctx, e.Namespace, records); err != nil {
			return nil, "", err
		}
		next = more
	}
	if kind == audit.Calls || kind == "" {
		calls, more, err := s.idleCalls(ctx, e, q, page)
		if err != nil {
			return nil, "", err
		}
		entries, next = append(entries, calls...), cmp.Or(next, more)
	}
	// IDs begin with the time, so records and receipts have a common order.
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.ID, b.ID) })
	if n := page.Size; len(entries) > n || next != "" && len(entries) > 0 {
		entries = entries[:min(n, len(entries))]
		next = tokenOf(entries[len(entries)-1].ID)
	}
	return entries, next, nil
}

func (s *Store) idleCalls(ctx context.Context, e app.Environment, q audit.Query, page Page) ([]Entry, string, error) {
	of := slices.DeleteFunc(hook.Results(), func(r hook.Result) bool {
		return r.Changes() || q.Actor != "" && q.Actor != callerOf(r).Name
	})
	if len(of) == 0 {
		return nil, "", nil
	}
	receipts, next, err := s.receiptsOf(ctx, e.Namespace, of, q.From, q.To, page)
	entries := make([]Entry, len(receipts))
	for i, r := range receipts {
		one := Entry{Receipt: r, Record: audit.Record{
			ID: r.ID, At: r.At, Actor: callerOf(r.Result), Origin: reqctx.Request{ID: r.RequestID},
			Action: audit.CallWebhook, Outcome: audit.Succeeded, Project: e.Project,
			Resource: audit.Path(appPath(app.App{Project: e.Project, Environment: e.Name, Name: r.App.Name}), "webhook"),
		}}
		if r.Code != "" {
			one.Outcome = audit.Failed
		}
		entries[i] = one
	}
	return entries, next, err
}

func callerOf(r hook.Result) reqctx.Actor {
	if r == hook.Unproven {
		return reqctx.Actor{Kind: reqctx.Anonymous}
	}
	return reqctx.Actor{Kind: reqctx.Webhook, Name: "webhook"}
}

func (s *Store) follow(ctx context.Context, namespace string, records []audit.Record) ([]Entry, error) {
	entries := make([]Entry, len(records))
	var refs []fire.Ref
	var reads []func(fire.Doc) error
	for i, r := range records {
		entries[i].Record = r
		if ref, read := s.subject(namespace, &entries[i]); read != nil {
			refs, reads = append(refs, ref), append(reads, read)
		}
	}
	docs, err := s.getAll(ctx, refs...)
	if err != nil {
		return nil, fmt.Errorf("read the objects of records in %s: %w", namespace, err)
	}
	for i, doc := range docs {
		if !doc.Exists {
			continue
		}
		if err := reads[i](doc); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func (s *Store) subject(namespace string, e *Entry) (fire.Ref, func(fire.Doc) error) {
	parts := strings.Split(e.Resource, "/")
	last := parts[len(parts)-1]
	if e.Action == audit.Deploy || e.Action == audit.RequestBuild {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || len(parts) < 3 || !app.ValidLabel(parts[len(parts)-3]) {
			return fire.Ref{}, nil
		}
		ref := app.Ref{Namespace: namespace, Name: parts[len(parts)-3]}
		if e.Action == audit.RequestBuild {
			return s.buildRef(ref, n), into(&e.Build, readBuild, func(b deploy.Build) bool { return near(b.RequestedAt, e.At) })
		}
		return s.revisionRef(ref, n), into(&e.Deployment, shape[deploy.Revision], func(r deploy.Revision) bool { return near(r.DeployedAt, e.At) })
	}
	if len(parts) < 2 || parts[len(parts)-2] != "api-keys" {
		return fire.Ref{}, nil
	}
	ref, err := s.keyRef(apikey.ID(last))
	if err != nil {
		return fire.Ref{}, nil
	}
	return ref, into(&e.Key, readKey, func(apikey.Key) bool { return true })
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() < sameChange }

func into[V any](v *V, read reader[V], meant func(V) bool) func(fire.Doc) error {
	return func(doc fire.Doc) error {
		got, err := read(doc)
		if err == nil && meant(got) {
			*v = got
		}
		return err
	}
}
