package keys

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

const bulkPath = prod + "/api-keys/bulk"

func (w *world) bulk(change string, dryRun bool, ids ...string) wire.BulkResult {
	w.Helper()
	body, err := json.Marshal(map[string]any{"keys": ids, "change": json.RawMessage(change), "dry_run": dryRun})
	check.OK(w, err)
	return read[wire.BulkResult](w.do(http.MethodPost, bulkPath, string(body)), http.StatusOK)
}

func (w *world) records(actions ...audit.Action) []audit.Record {
	w.Helper()
	all, _, err := w.store.Records(w.Context(), audit.Query{Project: "shop", Actions: actions}, store.Page{Size: 500})
	check.OK(w, err)
	return all
}

func outcomes(r wire.BulkResult) (all []string) {
	for _, k := range r.Results {
		all = append(all, strings.TrimSpace(k.Outcome+" "+string(k.Code)))
	}
	return all
}

func TestBulkChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, plan := range []string{"Starter", "Bigger"} {
		read[wire.Plan](w.do(http.MethodPost, prod+"/plans", `{"name":"`+plan+`","rate":10,"burst":20}`), http.StatusCreated)
	}
	tests := []struct {
		change, revoked string // outcome for a revoked key
		after           func(*wire.KeyState)
	}{
		{`{"plan":"plan-bigger"}`, "failed key_revoked", func(k *wire.KeyState) { k.Plan = "plan-bigger" }},
		{`{"status":"disabled"}`, "failed key_revoked", func(k *wire.KeyState) { k.Status = "disabled" }},
		{`{"expires_at":"2027-01-01T00:00:00Z"}`, "failed key_revoked", func(k *wire.KeyState) {
			k.ExpiresAt = new(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
		}},
		{`{"expires_at":null}`, "failed key_revoked", func(k *wire.KeyState) { k.ExpiresAt = nil }},
		{`{"add_tags":["eu","batch"]}`, "failed key_revoked", func(k *wire.KeyState) { k.Tags = []string{"batch", "eu", "old"} }},
		{`{"remove_tags":["old","other"]}`, "failed key_revoked", func(k *wire.KeyState) { k.Tags = []string{} }},
		{`{"revoke":true}`, "unchanged", func(k *wire.KeyState) { k.Status = "revoked" }},
	}
	for _, tt := range tests {
		t.Run(tt.change, func(t *testing.T) {
			k := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","name":"ci","tags":["old"],"expires_at":"2026-12-31T00:00:00Z"}`).issued(http.StatusCreated)
			other := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","tags":["old"],"expires_at":"2026-12-31T00:00:00Z"}`).issued(http.StatusCreated)
			revoked := w.makeKey()
			w.do(http.MethodPost, shop+"/api-keys/"+revoked.ID+"/revoke", "")
			ids := []string{k.ID, "key-unknown0", revoked.ID, other.ID, "nonsense"}
			before, recorded := w.stored(k.ID), len(w.records())

			dry := w.bulk(tt.change, true, ids...)
			check.Equal(t, "key after the dry run", before, w.stored(k.ID))
			check.Equal(t, "records of the dry run", 0, len(w.records())-recorded)

			got := w.bulk(tt.change, false, ids...)
			check.Equal(t, "dry run", got, dry)
			check.Equal(t, "outcomes", []string{"changed", "failed not_found", tt.revoked, "changed", "failed not_found"}, outcomes(got))
			was := wire.KeyState{Plan: "plan-starter", Status: "active", ExpiresAt: k.ExpiresAt, Tags: []string{"old"}}
			want := was
			tt.after(&want)
			check.Equal(t, "first result", wire.KeyResult{KeyID: k.ID, Name: "ci", Outcome: "changed", Before: &was, After: &want}, got.Results[0])
			is := w.do(http.MethodGet, shop+"/api-keys/"+k.ID, "").key()
			check.Equal(t, "key", want, wire.KeyState{Plan: is.Plan, Status: is.Status, ExpiresAt: is.ExpiresAt, Tags: is.Tags})
			var resources []string
			for _, r := range w.records()[:2] {
				resources = append(resources, path.Base(r.Resource))
			}
			slices.Sort(resources)
			check.Equal(t, "changed keys in the last records", slices.Sorted(slices.Values([]string{k.ID, other.ID})), resources)
			check.Equal(t, "records", recorded+2, len(w.records()))

			again := w.bulk(tt.change, false, ids...)
			if again.Changed != 0 || again.Unchanged < 2 || len(w.records())-recorded != 2 {
				t.Errorf("repeated call: got %v and %d records, want no change", outcomes(again), len(w.records())-recorded)
			}
		})
	}
}

func TestBulkFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, env := range []string{prod, staging} {
		w.makePlan(env)
	}
	read[wire.Plan](w.as("bob", http.MethodPost, "/api/v1/projects/bank/environments/prod/plans", `{"name":"Starter","rate":10,"burst":20}`), http.StatusCreated)
	full := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","tags":["1","2","3","4","5","6","7","8","9"]}`).issued(http.StatusCreated)
	elsewhere := w.do(http.MethodPost, staging+"/api-keys", aKey).issued(http.StatusCreated)
	foreign := w.as("bob", http.MethodPost, "/api/v1/projects/bank/environments/prod/api-keys", aKey).issued(http.StatusCreated)
	k := w.makeKey()
	before := map[string]apikey.Key{}
	for _, id := range []string{full.ID, elsewhere.ID, foreign.ID} {
		before[id] = w.stored(id)
	}
	for _, dry := range []bool{true, false} {
		got := w.bulk(`{"add_tags":["a","b"]}`, dry, full.ID, elsewhere.ID, foreign.ID, k.ID)
		check.Equal(t, "outcomes", []string{"failed invalid_tag", "failed not_found", "failed not_found", "changed"}, outcomes(got))
		for _, r := range got.Results[1:3] {
			if r.Before != nil || r.After != nil || r.Name != "" {
				t.Errorf("result for a key of another environment: got %+v, want no state", r)
			}
		}
		if first := got.Results[0]; first.Before == nil || first.After != nil || first.Message == "" || got.Failed != 3 || got.Changed != 1 {
			t.Errorf("got %+v", got)
		}
	}
	for id, want := range before {
		check.Equal(t, "failed key "+id, want, w.stored(id))
	}
	// A key that has expired shows that status, and can be enabled.
	old := w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter","expires_at":"2026-03-15T00:00:00Z"}`).issued(http.StatusCreated)
	w.bulk(`{"status":"disabled"}`, false, old.ID)
	w.clock.Advance(48 * time.Hour)
	if got := w.bulk(`{"status":"active"}`, false, old.ID).Results[0]; got.After.Status != expired || got.Before.Status != "disabled" {
		t.Errorf("enabled expired key: got %+v to %+v", got.Before, got.After)
	}
}

// TestBulkOfDamagedKey verifies that a damaged key fails without effect on the others.
func TestBulkOfDamagedKey(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	w := newWorldIn(t, project)
	w.makePlan(prod)
	damaged, k := w.makeKey(), w.makeKey()
	storetest.Change(t, project, "keys/"+damaged.ID, map[string]any{"secret": []byte("short")})
	dry := w.bulk(`{"status":"disabled"}`, true, damaged.ID, k.ID)
	check.Equal(t, "outcomes", []string{"failed internal", "changed"}, outcomes(dry))
	check.Equal(t, "run", dry, w.bulk(`{"status":"disabled"}`, false, damaged.ID, k.ID))
}

// TestBulkInForce verifies that the report of the checkers does not reveal keys of other projects,
// and that a dry run does not wait.
func TestBulkInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	read[wire.Plan](w.as("bob", http.MethodPost, "/api/v1/projects/bank/environments/prod/plans", `{"name":"Starter","rate":10,"burst":20}`), http.StatusCreated)
	foreign := w.as("bob", http.MethodPost, "/api/v1/projects/bank/environments/prod/api-keys", aKey).issued(http.StatusCreated)
	k, revoked := w.makeKey(), w.makeKey()
	w.do(http.MethodPost, shop+"/api-keys/"+revoked.ID+"/revoke", "")
	w.join(never)
	for body, waits := range map[string]bool{
		`"keys":["` + foreign.ID + `"]`:                               false,
		`"keys":["key-unknown0"]`:                                     false,
		`"keys":["` + revoked.ID + `","` + foreign.ID + `"]`:          false,
		`"keys":["` + k.ID + `"],"dry_run":true`:                      false,
		`"keys":["` + k.ID + `","` + foreign.ID + `","key-unknown0"]`: true,
	} {
		status := http.StatusOK
		if waits {
			status = http.StatusAccepted
		}
		a, change := w.preferring(http.MethodPost, bulkPath, `{`+body+`,"change":{"status":"disabled"}}`, "wait=1")
		if got := read[wire.BulkResult](a, status); (got.InForce != nil) != waits || (change != "") != waits || waits && len(got.InForce.Replicas) != 1 {
			t.Errorf("%s: got %s", body, a.Body)
		}
	}
}

func TestBulkRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	k := w.makeKey()
	before := w.stored(k.ID)
	many := make([]string, wire.MaxBulk+1)
	for i := range many {
		many[i] = `"key-` + strings.Repeat("0", 4) + string(rune('a'+i/26/26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26)) + `0"`
	}
	id := `"` + k.ID + `"`
	for _, tt := range []struct {
		keys, change string
		status       int
		code         problem.Code
	}{
		{`[]`, `{"revoke":true}`, 400, problem.InvalidParameter},
		{`[` + id + `,` + id + `]`, `{"revoke":true}`, 400, problem.InvalidParameter},
		{`[` + strings.Join(many, ",") + `]`, `{"revoke":true}`, 400, problem.InvalidParameter},
		{`["` + k.FullKey + `"]`, `{"revoke":true}`, 400, problem.InvalidParameter},
		{`null`, `{"revoke":true}`, 422, problem.MissingField},
		{id, `{"revoke":true}`, 400, problem.WrongType},
		{`[` + id + `]`, `null`, 422, problem.MissingField},
		{`[` + id + `]`, `{}`, 400, problem.InvalidParameter},
		{`[` + id + `]`, `{"revoke":false}`, 400, problem.InvalidParameter},
		{`[` + id + `]`, `{"revoke":true,"status":"disabled"}`, 400, problem.InvalidParameter},
		{`[` + id + `]`, `{"add_tags":["a"],"remove_tags":["b"]}`, 400, problem.InvalidParameter},
		{`[` + id + `]`, `{"name":"x"}`, 400, problem.UnknownField},
		{`[` + id + `]`, `{"consumer":"con-ab12cd34"}`, 400, problem.UnknownField},
		{`[` + id + `]`, `{"status":"revoked"}`, 422, problem.InvalidStatus},
		{`[` + id + `]`, `{"plan":"plan-none"}`, 422, problem.UnknownPlan},
		{`[` + id + `]`, `{"plan":"../x"}`, 422, problem.UnknownPlan},
		{`[` + id + `]`, `{"expires_at":"2026-03-14T12:00:00Z"}`, 422, problem.ExpiryInPast},
		{`[` + id + `]`, `{"expires_at":"soon"}`, 422, problem.InvalidExpiry},
		{`[` + id + `]`, `{"add_tags":[]}`, 422, problem.InvalidTag},
		{`[` + id + `]`, `{"add_tags":["A"]}`, 422, problem.InvalidTag},
		{`[` + id + `]`, `{"remove_tags":["a","a"]}`, 422, problem.InvalidTag},
	} {
		for _, dry := range []string{"true", "false"} {
			a := w.do(http.MethodPost, bulkPath, `{"keys":`+tt.keys+`,"change":`+tt.change+`,"dry_run":`+dry+`}`)
			a.Refused(tt.status, tt.code)
			if strings.Contains(string(a.Body), k.FullKey[16:]) {
				t.Errorf("got the full key in the response: %s", a.Body)
			}
		}
	}
	check.Equal(t, "key", before, w.stored(k.ID))
}

func TestBulkOf500Keys(t *testing.T) {
	t.Parallel()
	project := storetest.Project(t)
	w := newWorldIn(t, project)
	w.makePlan(prod)
	storetest.CopyKey(t, project, apikey.ID(w.makeKey().ID), wire.MaxBulk)
	ids := make([]string, wire.MaxBulk)
	for i := range ids {
		ids[i] = "key-c" + strings.Repeat("0", 4) + string([]byte{'0' + byte(i/100), '0' + byte(i/10%10), '0' + byte(i%10)})
	}
	counting := &concurrent{Store: w.store}
	w.service.store = counting
	for _, dry := range []bool{true, false} {
		begun := time.Now()
		got := w.bulk(`{"status":"disabled"}`, dry, ids...)
		took := time.Since(begun)
		t.Logf("dry run %t: %s", dry, took)
		if got.Changed != len(ids) || took > 10*time.Second {
			t.Errorf("got %d of %d keys changed in %s, want all within 10s", got.Changed, len(ids), took)
		}
	}
	if got := counting.most.Load(); got != bulkKeysAtOnce {
		t.Errorf("transactions at a time: got %d, want %d", got, bulkKeysAtOnce)
	}
	if got := counting.reads.Load(); got != int64(len(ids)) {
		t.Errorf("keys read by the dry run: got %d, want %d", got, len(ids))
	}
	if got := len(w.records(audit.UpdateKey)); got != len(ids) {
		t.Errorf("got %d records, want one for each key", got)
	}
}

// concurrent records the maximum number of concurrent changes, and counts reads of keys. If
// late is set, each change calls it first.
type concurrent struct {
	Store

	running, most, reads atomic.Int64
	late                 func()
}

func (c *concurrent) Key(ctx context.Context, id apikey.ID) (apikey.Key, error) {
	c.reads.Add(1)
	return c.Store.Key(ctx, id)
}

func (c *concurrent) ReissueKey(ctx context.Context, id apikey.ID, r apikey.Request, change func(apikey.Key) (apikey.Key, error)) (apikey.Key, checkers.Change, error) {
	n := c.running.Add(1)
	defer c.running.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	if c.late != nil {
		c.late()
	}
	return c.Store.ReissueKey(ctx, id, r, change)
}

func TestBulkEndsInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	var ids []string
	for range 3 * bulkKeysAtOnce {
		ids = append(ids, w.makeKey().ID)
	}
	w.service.store = &concurrent{Store: w.store, late: func() { w.clock.Advance(bulkStart) }}
	got := w.bulk(`{"status":"disabled"}`, false, ids...)
	if got.Changed == 0 || got.Changed > 2*bulkKeysAtOnce || got.Changed+got.Failed != len(ids) {
		t.Errorf("got %d changed and %d failed of %d", got.Changed, got.Failed, len(ids))
	}
	for _, r := range got.Results {
		if stored := w.stored(r.KeyID).Status; (r.Outcome == wire.KeyChanged) != (stored == apikey.Disabled) || r.Outcome == wire.KeyFailed && r.Code != wire.Text(problem.Unavailable) {
			t.Errorf("got %+v, stored status %s", r, stored)
		}
	}
	w.service.store = w.store
	if got := w.bulk(`{"status":"disabled"}`, false, ids...); got.Changed+got.Unchanged != len(ids) {
		t.Errorf("repeated call: got %v", outcomes(got))
	}
}

func TestBulksTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	ids := make([]string, 3)
	for i := range ids {
		ids[i] = w.makeKey().ID
	}
	gate := make(chan struct{})
	counting := &concurrent{Store: w.store, late: func() { <-gate }}
	w.service.store = counting
	var g errgroup.Group
	for _, id := range ids {
		g.Go(func() error {
			check.Equal(t, "outcomes", []string{"changed"}, outcomes(w.bulk(`{"status":"disabled"}`, false, id)))
			return nil
		})
	}
	for range ids {
		gate <- struct{}{}
	}
	if err := g.Wait(); err != nil || counting.most.Load() != 1 {
		t.Errorf("bulk changes of a project at a time: got %d, error %v, want 1", counting.most.Load(), err)
	}
}

func TestBulkQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newBulkQueue()
		enter := func(project string) func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			leave, err := q.enter(ctx, project)
			if err != nil {
				return nil
			}
			return leave
		}
		refuses := func(project string) {
			t.Helper()
			begun := time.Now()
			if enter(project) != nil {
				t.Errorf("%s: got a turn, want none", project)
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("%s: waited %s", project, took)
			}
		}
		leave := enter("a")
		refuses("a")
		for _, project := range []string{"b", "c", "d"} {
			defer enter(project)()
		}
		refuses("e")
		entered := make(chan func())
		for range 2 {
			go func() { entered <- enter("a") }()
		}
		synctest.Wait()
		leave()
		(<-entered)()
		(<-entered)()
		enter("e")()
		if len(q.of) != 3 {
			t.Errorf("got %d projects, want those in progress", len(q.of))
		}
	})
}
