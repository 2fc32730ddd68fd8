package keys

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	expired = "expired" // a status that is never stored

	// prefixTries is the number of attempts to find an unused prefix. With a million keys, the
	// probability of a collision is 1 in 2.8 million.
	prefixTries = 5
)

func (s *Service) listKeys(ctx context.Context, in httpapi.Scope, q api.KeysOf) (wire.KeyList, error) {
	return s.list(ctx, store.KeyFilter{Project: in.Project.Name, Environment: in.Environment.Name, Plan: plan.ID(q.Plan)}, q)
}

func (s *Service) listProjectKeys(ctx context.Context, in httpapi.Scope, q api.KeysIn) (wire.KeyList, error) {
	if q.Environment != "" {
		if _, err := s.api.Environment(ctx, in.Project.Name, q.Environment); err != nil {
			return wire.KeyList{}, err
		}
	}
	return s.list(ctx, store.KeyFilter{Project: in.Project.Name, Environment: q.Environment, Plan: plan.ID(q.Plan)}, q.KeysOf)
}

func (s *Service) list(ctx context.Context, f store.KeyFilter, q api.KeysOf) (wire.KeyList, error) {
	search, err := newQuery(q, s.now())
	if err != nil {
		return wire.KeyList{}, err
	}
	ready, err := s.store.KeyListReady(ctx)
	if err != nil {
		return wire.KeyList{}, err
	}
	if search.narrows() {
		return s.search(ctx, f, search, ready)
	}
	keys, next, err := s.store.Keys(ctx, f, store.Page(q.Page))
	if err != nil {
		return wire.KeyList{}, err
	}
	items, err := s.wireKeys(ctx, keys, s.now())
	if err != nil {
		return wire.KeyList{}, err
	}
	total, err := s.total(ctx, f, search, ready)
	return wire.KeyList{List: wire.List[wire.Key]{Items: items, NextPageToken: next}, Total: total}, err
}

func (s *Service) getKey(ctx context.Context, in httpapi.Scope, _ api.None) (wire.Key, error) {
	id, err := keyID(in)
	if err != nil {
		return wire.Key{}, err
	}
	k, err := s.store.Key(ctx, id)
	if err == nil {
		err = belongs(k, in.Project)
	}
	if err != nil {
		return wire.Key{}, err
	}
	in.SetETag(k)
	shown, err := s.wireKeys(ctx, []apikey.Key{k}, s.now())
	if err != nil {
		return wire.Key{}, err
	}
	return shown[0], nil
}

func (s *Service) createKey(ctx context.Context, in httpapi.Scope, body wire.CreateKey) (wire.IssuedKey, checkers.Change, error) {
	k, err := s.newKey(body)
	if err != nil {
		return wire.IssuedKey{}, checkers.Change{}, err
	}
	request, err := s.request(in, in.Environment.Namespace, body)
	if err != nil {
		return wire.IssuedKey{}, checkers.Change{}, err
	}
	e := in.Environment
	k.Project, k.Environment, k.Namespace, k.CreatedBy = e.Project, e.Name, e.Namespace, in.Caller.Username
	k, full, change, err := s.issue(ctx, k, request)
	if err != nil {
		return wire.IssuedKey{}, change, err
	}
	in.SetETag(k)
	return wire.IssuedKey{Key: s.created(ctx, k), FullKey: string(full)}, change, nil
}

func (s *Service) newKey(in wire.CreateKey) (apikey.Key, error) {
	id := plan.ID(httpapi.Deref(in.Plan))
	apps, scope := apikey.Scope(in.Apps)
	tags, tagging := apikey.CheckTags(in.Tags)
	now := s.changeTime()
	expires, expiry := parseExpiry(in.ExpiresAt, now)
	return apikey.Key{
		Plan: id, Name: in.Name, Apps: apps, Tags: tags, Status: apikey.Active,
		ExpiresAt: expires, CreatedAt: now, UpdatedAt: now,
	}, problem.Join(httpapi.Required("plan", in.Plan), checkPlanID(id), apikey.CheckName(in.Name), scope, tagging, expiry)
}

// issue generates a prefix and a secret for k and stores it. It retries with another prefix if the
// prefix is in use.
func (s *Service) issue(ctx context.Context, k apikey.Key, request apikey.Request) (apikey.Key, apikey.Full, checkers.Change, error) {
	for range prefixTries {
		prefix, err := apikey.NewPrefix(s.random)
		if err != nil {
			return apikey.Key{}, "", checkers.Change{}, fmt.Errorf("generate prefix: %w", err)
		}
		full, err := apikey.NewSecret(s.random, prefix)
		if err != nil {
			return apikey.Key{}, "", checkers.Change{}, fmt.Errorf("generate secret: %w", err)
		}
		k.Prefix, k.Secret = prefix, apikey.HashOf([]byte(full))
		change, err := s.store.IssueKey(ctx, k, request, s.cfg.MaxKeys)
		if !problem.Is(err, problem.AlreadyExists) {
			return k, full, change, err
		}
	}
	return apikey.Key{}, "", checkers.Change{}, fmt.Errorf("no unused prefix in %d attempts", prefixTries)
}

func (s *Service) updateKey(ctx context.Context, in httpapi.Scope, body wire.UpdateKey) (wire.Key, checkers.Change, error) {
	now := s.changeTime()
	return s.change(ctx, in, apikey.Request{}, now, func(k apikey.Key) (apikey.Key, error) { return changeKey(k, body, now) })
}

func (s *Service) revokeKey(ctx context.Context, in httpapi.Scope, _ api.Empty) (wire.Key, checkers.Change, error) {
	now := s.changeTime()
	return s.change(ctx, in, apikey.Request{}, now, func(k apikey.Key) (apikey.Key, error) { return k.Revoke(now, in.Caller.Username), nil })
}

func (s *Service) rotateKey(ctx context.Context, in httpapi.Scope, body wire.RotateKey) (wire.IssuedKey, checkers.Change, error) {
	grace, err := parseGrace(body.Grace)
	if err != nil {
		return wire.IssuedKey{}, checkers.Change{}, err
	}
	request, err := s.request(in, in.Param("key_id"), body)
	if err != nil {
		return wire.IssuedKey{}, checkers.Change{}, err
	}
	id, err := keyID(in)
	if err != nil {
		return wire.IssuedKey{}, checkers.Change{}, err
	}
	prefix, _ := id.Prefix() // checked by keyID
	full, err := apikey.NewSecret(s.random, prefix)
	if err != nil {
		return wire.IssuedKey{}, checkers.Change{}, fmt.Errorf("generate secret: %w", err)
	}
	now, hash := s.changeTime(), apikey.HashOf([]byte(full))
	k, change, err := s.change(ctx, in, request, now, func(k apikey.Key) (apikey.Key, error) { return k.Rotate(hash, grace, now) })
	return wire.IssuedKey{Key: k, FullKey: string(full)}, change, err
}

// change updates the key in a transaction that also checks the project, If-Match and the
// Idempotency-Key. It returns a not_found, precondition_failed, already_issued or
// idempotency_key_reused problem, or the problem of f.
func (s *Service) change(
	ctx context.Context, in httpapi.Scope, request apikey.Request, now time.Time, f func(apikey.Key) (apikey.Key, error),
) (wire.Key, checkers.Change, error) {
	id, err := keyID(in)
	if err != nil {
		return wire.Key{}, checkers.Change{}, err
	}
	k, change, err := s.store.ReissueKey(ctx, id, request, func(k apikey.Key) (apikey.Key, error) {
		if err := belongs(k, in.Project); err != nil {
			return apikey.Key{}, err
		}
		if err := in.Match.Check(k); err != nil {
			return apikey.Key{}, err
		}
		return f(k)
	})
	if err != nil {
		return wire.Key{}, checkers.Change{}, err
	}
	in.SetETag(k)
	return s.changed(ctx, k, now), change, nil
}

// changed returns a key for the response to a saved change. If the usage cannot be read, the
// response has no usage: it must not fail, since it may contain the new secret.
func (s *Service) changed(ctx context.Context, k apikey.Key, now time.Time) wire.Key {
	// Checkers are not queried: one without a response would delay the wait for the change.
	read, err := s.counted.ReadStored(ctx, []apikey.Prefix{k.Prefix}, s.now)
	var shown []wire.Key
	if err == nil {
		shown, err = s.wireUsed(ctx, []apikey.Key{k}, read, now)
	}
	return s.shownOrBare(ctx, k, now, shown, err)
}

func (s *Service) created(ctx context.Context, k apikey.Key) wire.Key {
	shown, err := s.wireUsed(ctx, []apikey.Key{k}, usagequery.Reading{Histories: []usage.History{{}}, AsOf: k.CreatedAt}, k.CreatedAt)
	return s.shownOrBare(ctx, k, k.CreatedAt, shown, err)
}

func (s *Service) shownOrBare(ctx context.Context, k apikey.Key, now time.Time, shown []wire.Key, err error) wire.Key {
	if err != nil {
		s.log.WarnContext(ctx, "read usage failed", "key_id", string(k.ID()), "error", err)
		return wireKey(k, now)
	}
	return shown[0]
}

// changeKey returns k with the fields of the request. It returns a key_revoked problem for a
// revoked key, unless the request is empty.
func changeKey(k apikey.Key, in wire.UpdateKey, now time.Time) (apikey.Key, error) {
	if in == (wire.UpdateKey{}) {
		return k, nil
	}
	if k.Status == apikey.Revoked {
		return apikey.Key{}, problem.FromCode(problem.KeyRevoked)
	}
	k.UpdatedAt = now
	wrong := problem.Join(changeName(&k, in), changePlanOf(&k, in), changeScope(&k, in), changeTags(&k, in), changeStatus(&k, in))
	if !in.ExpiresAt.Set {
		return k, wrong
	}
	expires, err := parseExpiry(in.ExpiresAt.Value, now)
	k.ExpiresAt = expires
	return k, problem.Join(wrong, err)
}

func changeName(k *apikey.Key, in wire.UpdateKey) error {
	in.Name.Apply(&k.Name)
	return apikey.CheckName(k.Name)
}

func changePlanOf(k *apikey.Key, in wire.UpdateKey) error {
	id := string(k.Plan)
	if err := httpapi.Set("plan", in.Plan, &id); err != nil {
		return err
	}
	k.Plan = plan.ID(id)
	return checkPlanID(k.Plan)
}

func checkPlanID(id plan.ID) error {
	if !plan.ValidID(string(id)) {
		return problem.FromCode(problem.UnknownPlan)
	}
	return nil
}

func changeScope(k *apikey.Key, in wire.UpdateKey) error {
	in.Apps.Apply(&k.Apps)
	scope, err := apikey.Scope(k.Apps)
	k.Apps = scope
	return err
}

func changeTags(k *apikey.Key, in wire.UpdateKey) error {
	in.Tags.Apply(&k.Tags)
	tags, err := apikey.CheckTags(k.Tags)
	k.Tags = tags
	return err
}

func changeStatus(k *apikey.Key, in wire.UpdateKey) error {
	status := string(k.Status)
	if err := httpapi.Set("status", in.Status, &status); err != nil {
		return err
	}
	changed, err := k.WithStatus(apikey.Status(status))
	if err != nil {
		return err
	}
	*k = changed
	return nil
}

// request returns the identity of a call for the detection of retries: the Idempotency-Key with a
// hash of resource and body. It is zero without an Idempotency-Key.
func (s *Service) request(in httpapi.Scope, about string, body any) (apikey.Request, error) {
	name, err := in.RequestName()
	if name == "" || err != nil {
		return apikey.Request{}, err
	}
	content, err := json.Marshal(body)
	if err != nil {
		return apikey.Request{}, fmt.Errorf("encode request: %w", err)
	}
	return apikey.NewRequest(in.Caller.Username, in.Project.Name, name, append([]byte(about+"\n"), content...), s.changeTime()), nil
}

func keyID(in httpapi.Scope) (apikey.ID, error) {
	id := apikey.ID(in.Param("key_id"))
	if _, ok := id.Prefix(); !ok {
		return "", errKeyNotFound()
	}
	return id, nil
}

func belongs(k apikey.Key, p app.Project) error {
	if k.Project != p.Name {
		return errKeyNotFound()
	}
	return nil
}

func errKeyNotFound() error { return problem.New(problem.NotFound, "The key does not exist.") }

func (s *Service) wireKeys(ctx context.Context, keys []apikey.Key, now time.Time) ([]wire.Key, error) {
	read, err := s.counted.Read(ctx, prefixes(keys), s.now)
	if err != nil {
		return nil, err
	}
	return s.wireUsed(ctx, keys, read, now)
}

func (s *Service) wireUsed(ctx context.Context, keys []apikey.Key, read usagequery.Reading, now time.Time) ([]wire.Key, error) {
	plans, err := s.store.PlansOf(ctx, keys)
	if err != nil {
		return nil, err
	}
	today := usage.DayOf(now)
	out := make([]wire.Key, len(keys))
	for i, k := range keys {
		out[i] = wireKey(k, now)
		lately := usagequery.Lately(read.Histories[i], plans[i].Limits, read.AsOf, now)
		out[i].Usage = &lately
		if last, ok := read.Histories[i].LastSeen(today); ok {
			day := last.String()
			out[i].LastSeen = &day
		}
	}
	return out, nil
}

func prefixes(keys []apikey.Key) []apikey.Prefix {
	all := make([]apikey.Prefix, len(keys))
	for i, k := range keys {
		all[i] = k.Prefix
	}
	return all
}

func status(k apikey.Key, now time.Time) string {
	if k.Status == apikey.Active && k.Expired(now) {
		return expired
	}
	return string(k.Status)
}

// wireKey returns a key without its usage.
func wireKey(k apikey.Key, now time.Time) wire.Key {
	apps, scope := apikey.ShownScope(k.Apps)
	out := wire.Key{
		ID: string(k.ID()), Prefix: string(k.Prefix), Project: k.Project, Environment: k.Environment,
		Plan: string(k.Plan), Name: k.Name, Apps: apps, Scope: string(scope), Tags: append([]string{}, k.Tags...), Status: status(k, now),
		CreatedAt: k.CreatedAt, CreatedBy: k.CreatedBy, Leak: wireLeak(k),
	}
	if !k.ExpiresAt.IsZero() {
		out.ExpiresAt = &k.ExpiresAt
	}
	if k.Status == apikey.Revoked {
		out.RevokedAt = &k.UpdatedAt
	}
	if k.RevokedBy != "" {
		out.RevokedBy = &k.RevokedBy
	}
	if k.HasPrevious(now) {
		out.PreviousSecretExpiresAt = &k.PreviousUntil
	}
	return out
}
