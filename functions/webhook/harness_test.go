package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
	"github.com/sluicegate/sluice/tests/storetest"
)

// In shop-prod, hello has an image and site has a git source, both with a webhook. quiet has no
// webhook.
const (
	hello  = "shop-prod/hello"
	site   = "shop-prod/site"
	quiet  = "shop-prod/quiet"
	branch = "main"
	commit = "9fceb02d0ae598e95dc970b74767f19372d61af8"
	image2 = "registry.example.com/shop/hello:2"
	digest = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

// tokens is a fake of the API server and of the watch.
type tokens struct {
	mu     sync.Mutex
	now    map[app.Ref]hook.Token
	told   map[app.Ref]hook.Token
	asked  int // requests
	down   bool
	synced chan struct{} // closed once the first list has arrived
}

func newTokens() *tokens {
	synced := make(chan struct{})
	close(synced)
	return &tokens{now: map[app.Ref]hook.Token{}, told: map[app.Ref]hook.Token{}, synced: synced}
}

func (t *tokens) WebhookToken(_ context.Context, ref app.Ref) (hook.Token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if t.down {
		return "", problem.FromCode(problem.Unavailable)
	}
	if token, ok := t.now[ref]; ok {
		return token, nil
	}
	return "", problem.FromCode(problem.NotFound)
}

func (t *tokens) Synced() <-chan struct{} { return t.synced }

func (t *tokens) Token(ref app.Ref) (hook.Token, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	token, ok := t.told[ref]
	return token, ok
}

// set changes a token in the API server and, if told is true, in the watch. An empty token
// deletes it.
func (t *tokens) set(ref app.Ref, token hook.Token, told bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range []map[app.Ref]hook.Token{t.now, t.told} {
		if token == "" {
			delete(m, ref)
		} else {
			m[ref] = token
		}
		if !told {
			return
		}
	}
}

func (t *tokens) get(ref app.Ref) hook.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now[ref]
}

func (t *tokens) questions() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

type tags struct{ asked atomic.Int64 }

func (t *tags) Resolve(context.Context, string) (digestOf, note string) {
	t.asked.Add(1)
	return digest, ""
}

type told struct {
	mu   sync.Mutex
	seen map[string]int
}

func (t *told) Notify(_ context.Context, eventType string, ref app.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[eventType+" "+ref.String()]++
}

type world struct {
	testing.TB
	store   *store.Store
	service *Service
	handler http.Handler
	tokens  *tokens
	tags    *tags
	told    *told
	clock   functest.Clock
	log     functest.Log
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, store: storetest.New(t), tokens: newTokens(), tags: &tags{}, told: &told{seen: map[string]int{}}}
	w.clock.Set(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC))
	s, err := New(Config{CallsPerMinute: 60, RefusalsPerMinute: 60, BaseURL: "https://sluice.example.com/", MaxWait: 300 * time.Second}, Parts{
		Tokens: w.tokens, Watched: w.tokens, Issuers: &vouching{}, Apps: w.store, Registry: w.tags, Deploys: w.told, Builds: w.told, Random: rand.Reader,
		Log: w.log.Logger(),
	})
	check.OK(t, err)
	s.poll = 10 * time.Millisecond
	s.now = w.clock.Now
	s.receipts.now = s.now
	w.service, w.handler = s, s.Handler()
	storetest.EnvironmentOf(t, w.store, app.Project{Name: "shop"}, "prod")
	w.addApp("hello", nil)
	w.addApp("site", &app.GitSource{Repository: "https://git.example.com/shop/site.git", Branch: branch})
	w.addApp("quiet", nil)
	w.enable(hello)
	w.enable(site)
	return w
}

func (w *world) token(address string) string   { return string(w.tokens.get(refOf(address))) }
func (w *world) stored(address string) app.App { return w.app(refOf(address)) }

func refOf(address string) app.Ref {
	namespace, name, _ := strings.Cut(address, "/")
	return app.Ref{Namespace: namespace, Name: name}
}

func (w *world) addApp(name string, source *app.GitSource) {
	w.Helper()
	a := app.App{
		Name: name, Project: "shop", Environment: "prod", Host: name + ".example.com",
		GitSource: source, Gate: app.Gate{State: app.Ungated},
	}
	if source == nil {
		a.Image, a.Revision = "registry.example.com/shop/hello:1", 1
	}
	storetest.App(w, w.store, a)
}

func (w *world) enable(address string) {
	w.Helper()
	token, err := hook.NewToken(rand.Reader)
	check.OK(w, err)
	w.tokens.set(refOf(address), token, true)
}

func (w *world) app(ref app.Ref) app.App {
	w.Helper()
	a, err := w.store.App(w.Context(), ref.Namespace, ref.Name)
	check.OK(w, err)
	return a
}

func (w *world) added(address string) (revisions []deploy.Revision, builds []deploy.Build) {
	w.Helper()
	revisions, _, err := w.store.Deployments(w.Context(), refOf(address), store.Page{Size: 500})
	check.OK(w, err)
	builds, _, err = w.store.Builds(w.Context(), refOf(address), store.Page{Size: 500})
	check.OK(w, err)
	return revisions, builds
}

type state struct {
	App       app.App
	Revisions []deploy.Revision
	Builds    []deploy.Build
}

func (w *world) states() map[string]state {
	w.Helper()
	all := map[string]state{}
	for _, address := range []string{hello, site, quiet} {
		revisions, builds := w.added(address)
		all[address] = state{App: w.stored(address), Revisions: revisions, Builds: builds}
	}
	return all
}

func (w *world) untouched(before map[string]state) {
	w.Helper()
	if diff := cmp.Diff(before, w.states()); diff != "" {
		w.Errorf("apps (-before +after):\n%s", diff)
	}
	if len(w.told.seen) > 0 {
		w.Errorf("told %v", w.told.seen)
	}
}

type call struct {
	world   *world
	address string
	body    string
	header  http.Header
	from    string
	request string
}

func (w *world) call(address, body string) *call {
	return &call{world: w, address: address, body: body, header: http.Header{"Content-Type": {"application/json"}}}
}

func (w *world) ci(address, body string) *call {
	return w.call(address, body).with(hook.TokenHeader, w.token(address))
}

func (w *world) provider(address, event, body string) *call {
	return w.call(address, body).with("X-GitHub-Event", event).with(hook.SignatureHeader, sign(w.token(address), body))
}

func sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func (c *call) with(name, value string) *call    { c.header.Set(name, value); return c }
func (c *call) without(name string) *call        { c.header[http.CanonicalHeaderKey(name)] = nil; return c }
func (c *call) adding(name, value string) *call  { c.header.Add(name, value); return c }
func (c *call) sentFrom(address string) *call    { c.from = address; return c }
func (c *call) is(status int, want any)          { c.world.Helper(); c.send().is(status, want) }
func (c *call) refused(s int, code problem.Code) { c.world.Helper(); c.send().Refused(s, code) }

type answer struct {
	functest.Answer

	call *call
}

func (c *call) send() answer { c.world.Helper(); return c.by(http.MethodPost) }

func (c *call) by(method string) answer {
	c.world.Helper()
	h := c.world.handler
	if c.request != "" {
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c.world.handler.ServeHTTP(w, r.WithContext(reqctx.Begin(r.Context(), reqctx.Request{ID: c.request})))
		})
	}
	sent := functest.Call{Method: method, Path: "/api/v1/webhook/" + c.address, Body: c.body, From: c.from, Header: c.header}
	return answer{sent.Send(c.world, h), c}
}

func (a answer) is(status int, want any) {
	a.call.world.Helper()
	if st, ok := want.(wire.WebhookStatus); ok && st.StatusURL == "" {
		what := startedWork{build: int64(st.Build)}
		if st.Build == 0 {
			what.revision = int64(st.Revision)
		}
		st.StatusURL = what.statusURL("https://sluice.example.com", refOf(a.call.address))
		want = st
	}
	b, err := json.Marshal(want)
	check.OK(a.call.world, err)
	if a.Status != status || strings.TrimSpace(string(a.Body)) != string(b) {
		a.Errorf("%s %s\n got %d %s\nwant %d %s", a.call.address, a.call.body, a.Status, a.Body, status, b)
	}
}
