package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func newToken(t testing.TB, project, name string) servicetoken.Token {
	t.Helper()
	token, _, err := servicetoken.New(apikey.Random(), servicetoken.Token{
		Project: project, Name: name, Role: app.Developer, CreatedAt: noon(), CreatedBy: "ada", ExpiresAt: noon().Add(time.Hour),
	})
	check.OK(t, err)
	return token
}

func tokenNames(t testing.TB, s *store.Store, project string) map[string]bool {
	t.Helper()
	all, _, err := s.Tokens(t.Context(), project, store.Page{Size: 2 * servicetoken.MaxPerProject})
	check.OK(t, err)
	names := map[string]bool{}
	for _, token := range all {
		names[token.Name] = true
	}
	return names
}

func TestServiceToken(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), asAda(t)
	for _, name := range []string{"shop", "other"} {
		makeProject(t, s, name, map[string]app.Role{"ada": app.Owner})
	}
	want := newToken(t, "shop", "nightly")
	wantProblem(t, "one of no project", s.CreateToken(ctx, newToken(t, "none", "nightly")), problem.NotFound)
	wantProblem(t, "create", s.CreateToken(ctx, want), "")
	wantProblem(t, "its name again", s.CreateToken(ctx, newToken(t, "shop", "nightly")), problem.AlreadyExists)
	wantProblem(t, "its name elsewhere", s.CreateToken(ctx, newToken(t, "other", "nightly")), "")
	wantProblem(t, "no id", s.CreateToken(ctx, servicetoken.Token{Project: "shop", Name: "x"}), problem.NotFound)
	got, err := s.ServiceToken(ctx, want.ID)
	wantProblem(t, "read", err, "")
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(servicetoken.Token{}, "Version")); diff != "" || got.Version.IsZero() {
		t.Errorf("token (-want +got):\n%s", diff)
	}
	for _, id := range []servicetoken.ID{"token-000000000000", "token-../users/ad", ""} {
		_, err := s.ServiceToken(ctx, id)
		wantProblem(t, "read "+string(id), err, problem.NotFound)
		wantProblem(t, "revoke "+string(id), s.RevokeToken(ctx, "shop", id), problem.NotFound)
	}
	wantProblem(t, "revoke another project's", s.RevokeToken(ctx, "other", want.ID), problem.NotFound)
	wantProblem(t, "revoke", s.RevokeToken(ctx, "shop", want.ID), "")
	wantProblem(t, "revoke it again", s.RevokeToken(ctx, "shop", want.ID), problem.NotFound)
	_, err = s.ServiceToken(ctx, want.ID)
	wantProblem(t, "read it revoked", err, problem.NotFound)
	wantProblem(t, "its name again after the revocation", s.CreateToken(ctx, newToken(t, "shop", "nightly")), "")
	check.Equal(t, "another project's", map[string]bool{"nightly": true}, tokenNames(t, s, "other"))
}

func TestKeysIssuedBy(t *testing.T) {
	t.Parallel()
	s, ada := storetest.New(t), asAda(t)
	storePlan(t, s, "shop-prod", "starter")
	nightly := reqctx.WithActor(t.Context(), reqctx.Actor{Kind: reqctx.Token, Name: "token:nightly"})
	issue := func(ctx context.Context) apikey.ID {
		k := newKey(t)
		_, err := s.IssueKey(ctx, k, apikey.Request{}, 0)
		wantProblem(t, "issue", err, "")
		return k.ID()
	}
	change := func(ctx context.Context, id apikey.ID, to func(apikey.Key) (apikey.Key, error)) {
		_, _, err := s.ReissueKey(ctx, id, apikey.Request{}, to)
		wantProblem(t, "change", err, "")
	}
	created, rotated, revoked, touched := issue(nightly), issue(ada), issue(nightly), issue(ada)
	change(nightly, rotated, func(k apikey.Key) (apikey.Key, error) { return k.Rotate(apikey.HashOf([]byte("other")), 0, noon()) })
	change(ada, revoked, func(k apikey.Key) (apikey.Key, error) { return k.Revoke(noon(), "ada"), nil })
	change(nightly, touched, func(k apikey.Key) (apikey.Key, error) { return k.WithStatus(apikey.Disabled) })
	token := servicetoken.Token{Project: "shop", Name: "nightly", CreatedAt: time.Now()}
	keysOf := func(token servicetoken.Token) (ids []apikey.ID) {
		keys, err := s.KeysIssuedBy(t.Context(), token)
		wantProblem(t, "list", err, "")
		for _, k := range keys {
			ids = append(ids, k.ID())
		}
		return ids
	}
	want := []apikey.ID{created, rotated}
	slices.Sort(want)
	check.Equal(t, "keys", want, keysOf(token))
	token.CreatedAt = time.Now().Add(time.Hour)
	if got := keysOf(token); len(got) > 0 {
		t.Errorf("keys of a later token with the same name: got %v, want none", got)
	}
}

func TestTokenUse(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), asAda(t)
	makeProject(t, s, "shop", map[string]app.Role{"ada": app.Owner})
	wanted := newToken(t, "shop", "nightly")
	wantProblem(t, "create", s.CreateToken(ctx, wanted), "")
	read, err := s.ServiceToken(ctx, wanted.ID)
	wantProblem(t, "read", err, "")
	before := len(recorded(t, s, audit.Query{Project: "shop"}))
	wantProblem(t, "use", s.UseToken(ctx, read, noon()), "")
	wantProblem(t, "use at once", s.UseToken(ctx, read, noon().Add(1)), problem.Conflict)
	used, err := s.ServiceToken(ctx, wanted.ID)
	wantProblem(t, "read", err, "")
	if !used.LastUsed.Equal(noon()) || used.Hash != wanted.Hash {
		t.Errorf("used token: got %+v, want the first time of use", used)
	}
	if after := len(recorded(t, s, audit.Query{Project: "shop"})); after != before {
		t.Errorf("got %d records of the use, want none", after-before)
	}
	wantProblem(t, "revoke", s.RevokeToken(ctx, "shop", wanted.ID), "")
	if err := s.UseToken(ctx, used, noon()); err == nil {
		t.Error("use of a revoked token: got no error")
	}
	_, err = s.ServiceToken(ctx, wanted.ID)
	wantProblem(t, "read it revoked", err, problem.NotFound)
}

func TestTokensGoWithTheirProject(t *testing.T) {
	t.Parallel()
	s, ctx := storetest.New(t), asAda(t)
	p := makeProject(t, s, "shop", map[string]app.Role{"ada": app.Owner})
	wanted := newToken(t, "shop", "nightly")
	wantProblem(t, "create", s.CreateToken(ctx, wanted), "")
	wantProblem(t, "delete the project", storetest.DeleteProject(ctx, s, "shop"), "")
	_, err := s.ServiceToken(ctx, wanted.ID)
	wantProblem(t, "read", err, problem.NotFound)
	wantProblem(t, "create it again", s.CreateProject(t.Context(), p), "")
	if names := tokenNames(t, s, "shop"); len(names) != 0 {
		t.Errorf("tokens of the later project: got %v, want none", names)
	}
}

func TestTokenLimit(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	processes := []*store.Store{storetest.Open(t, project), storetest.Open(t, project)}
	makeProject(t, processes[0], "shop", map[string]app.Role{"ada": app.Owner})
	create := func(s *store.Store, name string) error {
		for {
			if err := s.CreateToken(t.Context(), newToken(t, "shop", name)); !problem.Is(err, problem.Conflict) && !problem.Is(err, problem.Unavailable) {
				return err
			}
		}
	}
	for i := range servicetoken.MaxPerProject - 2 {
		wantProblem(t, "create", create(processes[i%2], fmt.Sprintf("t%d", i)), "")
	}
	var created, refused atomic.Int64
	var creating sync.WaitGroup
	for i := range 6 {
		creating.Go(func() {
			switch err := create(processes[i%2], fmt.Sprintf("last%d", i/2)); {
			case err == nil:
				created.Add(1)
			case problem.Is(err, problem.TooManyTokens), problem.Is(err, problem.AlreadyExists):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	creating.Wait()
	if n := len(tokenNames(t, processes[0], "shop")); n != servicetoken.MaxPerProject || created.Load() != 2 || refused.Load() != 4 {
		t.Errorf("got %d tokens, of the last six %d created and %d rejected, want 2 and 4", n, created.Load(), refused.Load())
	}
	wantProblem(t, "delete a project with all of them", storetest.DeleteProject(t.Context(), processes[0], "shop"), "")
	if names := tokenNames(t, processes[0], "shop"); len(names) != 0 {
		t.Errorf("tokens: got %v, want none", names)
	}
}
