package keys

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/functions/keys/internal/program"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

type scanner struct {
	*world

	key *ecdsa.PrivateKey
}

const scannersKey = "first"

func newScanner(t *testing.T) *scanner {
	t.Helper()
	w := newWorld(t)
	w.makePlan(prod)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	check.OK(t, err)
	list, err := json.Marshal(map[string]any{"public_keys": []map[string]any{
		{"key_identifier": scannersKey, "key": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), "is_current": true},
	}})
	check.OK(t, err)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(list) }))
	t.Cleanup(site.Close)
	w.service.leaks = newLeakReporter(Config{LeakPrograms: program.List{{Name: "github", Keys: site.URL}}}, w.service)
	w.service.leaks.floor = 0
	return &scanner{w, key}
}

func (s *scanner) sign(body string) http.Header {
	s.Helper()
	sum := sha256.Sum256([]byte(body))
	signature, err := ecdsa.SignASN1(rand.Reader, s.key, sum[:])
	check.OK(s, err)
	return http.Header{program.IdentifierHeader: {scannersKey}, program.SignatureHeader: {base64.StdEncoding.EncodeToString(signature)}}
}

func (s *scanner) sends(found ...wire.FoundSecret) answer {
	s.Helper()
	body, err := json.Marshal(found)
	check.OK(s, err)
	return s.send("", http.MethodPost, leaksPath, string(body), s.sign(string(body)))
}

const leaksPath = "/api/v1/leaks"

func (a answer) received(n int) {
	a.Helper()
	if diff := cmp.Diff(wire.LeaksReceived{Received: n}, read[wire.LeaksReceived](a, http.StatusOK)); diff != "" {
		a.Error(diff)
	}
}

func (s *scanner) leaks(project string) []audit.Record {
	s.Helper()
	all, _, err := s.store.Records(s.Context(), audit.Query{Project: project, Actions: []audit.Action{audit.LeakKey}}, store.Page{Size: 100})
	check.OK(s, err)
	return all
}

func (s *scanner) counted(by, result string, want int) {
	s.Helper()
	got := functest.Metrics(s, s.service.leaks.results)
	if n, ok := got["sluice_leaked_secrets_total "+by+" "+result]; !ok || n != float64(want) {
		s.Errorf("%s by %s: got %v, want %d", result, by, got, want)
	}
}

func TestLeakIsEnded(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	k := s.makeKey()
	found := wire.FoundSecret{Token: k.FullKey, Type: "sluice_api_key", URL: "https://git.example.com/a?key=" + k.FullKey, Source: "commit"}
	s.sends(found, found).received(2)
	got := s.do(http.MethodGet, shop+"/api-keys/"+k.ID, "").key()
	want := &wire.KeyLeak{At: s.service.changeTime(), By: "program:github", FoundAt: "https://git.example.com/a?key=sluice_[redacted]", FoundIn: "commit", Secret: wire.LeakedCurrent}
	if diff := cmp.Diff(want, got.Leak); diff != "" || got.Status != "disabled" {
		t.Errorf("got status %s, leak (-want +got):\n%s", got.Status, diff)
	}
	records := s.leaks("shop")
	if len(records) != 1 {
		t.Fatalf("records of the leak: got %d", len(records))
	}
	r := records[0]
	if diff := cmp.Diff(audit.Values{
		"status": "disabled", "found_at": want.FoundAt, "found_in": "commit", "leaked_secret": "current",
	}, r.New); diff != "" || r.Actor != (reqctx.Actor{Kind: reqctx.Program, Name: "program:github"}) {
		t.Errorf("got actor %v (-want +got):\n%s", r.Actor, diff)
	}
	if change, err := s.store.Change(t.Context(), "shop", r.ID); err != nil || change.Keys.IsZero() {
		t.Errorf("change: got %+v, error %v", change, err)
	}
	before := s.stored(k.ID)
	found.URL = "https://elsewhere.example.com"
	s.sends(found).received(1)
	if diff := cmp.Diff(before, s.stored(k.ID)); diff != "" || len(s.leaks("shop")) != 1 {
		t.Errorf("second report: got %d records, changes:\n%s", len(s.leaks("shop")), diff)
	}
	s.counted("program", "ended", 1)
	s.counted("program", "known", 1)
	if strings.Contains(s.log.String(), k.FullKey) || strings.Contains(s.log.String(), k.FullKey[len(k.FullKey)-apikey.SecretLength:]) {
		t.Error("got the key in the log")
	}
}

func TestLeakedServiceToken(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	issue := func(name string) (servicetoken.Token, string) {
		token, full, err := servicetoken.New(apikey.Random(), servicetoken.Token{
			Project: "shop", Name: name, Role: app.Owner, CreatedBy: "ada", CreatedAt: s.service.changeTime(), ExpiresAt: s.service.changeTime().Add(time.Hour),
		})
		if err == nil {
			err = s.store.CreateToken(t.Context(), token)
		}
		check.OK(t, err)
		return token, string(full)
	}
	found, full := issue("nightly")
	typed, other := issue("weekly")
	_, unknown, err := servicetoken.New(apikey.Random(), servicetoken.Token{})
	check.OK(t, err)
	for range 2 {
		s.sends(wire.FoundSecret{Token: full, URL: "https://git.example.com/a?t=" + full, Source: "commit"}, wire.FoundSecret{Token: string(unknown)}).received(2)
	}
	s.do(http.MethodPost, leaksPath+"/report", `{"key":"`+other+`"}`).received(1)
	for _, token := range []servicetoken.Token{found, typed} {
		if _, err := s.store.ServiceToken(t.Context(), token.ID); !problem.Is(err, problem.NotFound) {
			t.Errorf("%s after its leak: got %v, want not_found", token.Name, err)
		}
	}
	records, _, err := s.store.Records(t.Context(), audit.Query{Project: "shop", Actions: []audit.Action{audit.LeakToken}}, store.Page{Size: 10})
	if err != nil || len(records) != 2 {
		t.Fatalf("got records %+v, error %v, want 2", records, err)
	}
	r := records[1]
	if diff := cmp.Diff(audit.Values{"found_at": "https://git.example.com/a?t=sluice_[redacted]", "found_in": "commit"}, r.New); diff != "" || r.Actor.Name != "program:github" {
		t.Errorf("got actor %v (-want +got):\n%s", r.Actor, diff)
	}
	s.counted("program", "ended", 1)
	s.counted("program", "unknown", 3)
	s.counted("person", "ended", 1)
	if strings.Contains(s.log.String(), full) {
		t.Error("got the token in the log")
	}
}

func TestLeakPolicies(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	if _, err := s.store.UpdateProject(t.Context(), "shop", func(p app.Project) (app.Project, error) {
		p.LeakPolicy = apikey.LeakRevoke
		return p, nil
	}); err != nil {
		t.Fatal(err)
	}
	revokes, rotated, revoked := s.makeKey(), s.makeKey(), s.makeKey()
	next := s.do(http.MethodPost, shop+"/api-keys/"+rotated.ID+"/rotate", "").issued(http.StatusOK)
	byHand := s.do(http.MethodPost, shop+"/api-keys/"+revoked.ID+"/revoke", "").key()
	for range 2 {
		s.sends(wire.FoundSecret{Token: revokes.FullKey}, wire.FoundSecret{Token: rotated.FullKey}, wire.FoundSecret{Token: revoked.FullKey}).received(3)
	}
	got := s.do(http.MethodGet, shop+"/api-keys/"+revokes.ID, "").key()
	if got.Status != "revoked" || got.RevokedBy == nil || *got.RevokedBy != "program:github" {
		t.Errorf("policy revoke: got %+v", got)
	}
	got = s.do(http.MethodGet, shop+"/api-keys/"+rotated.ID, "").key()
	if got.Status != "active" || got.PreviousSecretExpiresAt != nil || got.Leak == nil || got.Leak.Secret != wire.LeakedEnded {
		t.Errorf("leaked previous secret: got %+v", got)
	}
	if !s.stored(rotated.ID).Secret.Equal(apikey.HashOf([]byte(next.FullKey))) {
		t.Error("got the current secret ended")
	}
	got = s.do(http.MethodGet, shop+"/api-keys/"+revoked.ID, "").key()
	if got.Leak == nil || !got.RevokedAt.Equal(*byHand.RevokedAt) || *got.RevokedBy != "ada" {
		t.Errorf("revoked key: got %+v", got)
	}
	if n := len(s.leaks("shop")); n != 3 {
		t.Errorf("records of three leaks: got %d", n)
	}
	s.counted("program", "ended", 2)
	s.counted("program", "recorded", 1)
	s.counted("program", "known", 2)
	s.counted("program", "unknown", 1) // the previous secret has ended
}

func TestLeakSender(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	k := s.makeKey()
	body := `[{"token":"` + k.FullKey + `"}]`
	signed := s.sign(body)
	with := func(change func(http.Header)) http.Header {
		h := signed.Clone()
		change(h)
		return h
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.OK(t, err)
	otherSigner := &scanner{s.world, other}
	var first []byte
	for name, head := range map[string]http.Header{
		"no headers":            {},
		"of another body":       s.sign(body + " "),
		"of another key":        otherSigner.sign(body),
		"an unknown key":        with(func(h http.Header) { h.Set(program.IdentifierHeader, "second") }),
		"two signatures":        with(func(h http.Header) { h.Add(program.SignatureHeader, h.Get(program.SignatureHeader)) }),
		"two identifiers":       with(func(h http.Header) { h.Add(program.IdentifierHeader, scannersKey) }),
		"an additional session": {"Authorization": {"Bearer x"}},
	} {
		a := s.send("olga", http.MethodPost, leaksPath, body, head)
		a.Refused(http.StatusUnauthorized, problem.Unauthenticated)
		if first == nil {
			first = a.Body
		}
		if string(a.Body) != string(first) {
			t.Errorf("%s: got %s", name, a.Body)
		}
	}
	if got := s.stored(k.ID); got.Status != apikey.Active || got.Leak != nil {
		t.Errorf("key: got %+v", got)
	}
	for name, text := range map[string]string{"no list": `{"token":""}`, "null": `null`, "no object": `["x"]`, "a number": `[{"token":1}]`} {
		t.Log(name)
		s.send("", http.MethodPost, leaksPath, text, s.sign(text)).Refused(http.StatusBadRequest, problem.WrongType)
	}
	s.send("", http.MethodPost, leaksPath, `[`, s.sign(`[`)).Refused(http.StatusBadRequest, problem.MalformedJSON)
	many := make([]wire.FoundSecret, maxLeaks+1)
	many[0].Token = k.FullKey
	s.sends(many...).Refused(http.StatusRequestEntityTooLarge, problem.BodyTooLarge)
	large := `[{"token":"` + k.FullKey + `","type":"` + strings.Repeat("x", maxLeaksBody) + `"}]`
	s.send("", http.MethodPost, leaksPath, large, s.sign(large)).Refused(http.StatusRequestEntityTooLarge, problem.BodyTooLarge)
	if got := s.stored(k.ID); got.Status != apikey.Active {
		t.Errorf("status after rejected reports: got %s", got.Status)
	}
	s.send("", http.MethodPost, leaksPath, body, signed).received(1)
	if got := s.stored(k.ID); got.Status != apikey.Disabled {
		t.Errorf("status after a valid report: got %s", got.Status)
	}
}

func TestUnauthenticatedLeakReportsAreLimited(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	handler := s.handler
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(reqctx.Begin(r.Context(), reqctx.Request{ID: "r1", Address: reqctx.Forwarded(r.Header)})))
	})
	from := func(address, body string, head http.Header) answer {
		h := head.Clone()
		h.Set("X-Forwarded-For", address)
		return s.send("", http.MethodPost, leaksPath, body, h)
	}
	for range unprovenBurst {
		from("203.0.113.1", `[]`, http.Header{}).Refused(http.StatusUnauthorized, problem.Unauthenticated)
	}
	from("203.0.113.1", `[]`, http.Header{}).Refused(http.StatusTooManyRequests, problem.RateLimited)
	for range unprovenBurst + 1 { // authenticated calls do not count
		from("203.0.113.2", `[]`, s.sign(`[]`)).received(0)
	}
	for range programBurst - unprovenBurst - 1 {
		from("203.0.113.3", `[]`, s.sign(`[]`)).received(0)
	}
	from("203.0.113.3", `[]`, s.sign(`[]`)).Refused(http.StatusTooManyRequests, problem.RateLimited)
}

func TestLeakByPerson(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	k := s.makeKey()
	report := func(user, key string) answer {
		return s.as(user, http.MethodPost, leaksPath+"/report", fmt.Sprintf(`{"key":%q,"url":"https://paste.example.com/1"}`, key))
	}
	made := s.madeUp()
	there, nowhere := report("bob", k.FullKey), report("bob", made)
	if string(there.Body) != string(nowhere.Body) || there.Status != nowhere.Status || there.Status != http.StatusOK {
		t.Errorf("existing key: got %d %s, unknown key: got %d %s", there.Status, there.Body, nowhere.Status, nowhere.Body)
	}
	there.received(1)
	got := s.do(http.MethodGet, shop+"/api-keys/"+k.ID, "").key()
	if got.Status != "disabled" || got.Leak == nil || got.Leak.By != "bob" || got.Leak.FoundAt != "https://paste.example.com/1" {
		t.Errorf("key: got %s, %+v", got.Status, got.Leak)
	}
	if r := s.leaks("shop"); len(r) != 1 {
		t.Errorf("record: got %+v", r)
	}
	report("bob", "sluice_x").Refused(http.StatusBadRequest, problem.InvalidParameter)
	report("bob", k.FullKey[:len(k.FullKey)-1]+"~").Refused(http.StatusBadRequest, problem.InvalidParameter)
	s.as("bob", http.MethodPost, leaksPath+"/report", `{}`).Refused(http.StatusUnprocessableEntity, problem.MissingField)
	for range personBurst - 4 {
		report("bob", made).received(1)
	}
	report("bob", made).Refused(http.StatusTooManyRequests, problem.RateLimited)
	report("vera", made).received(1)
}

func (s *scanner) madeUp() string {
	s.Helper()
	_, full := functest.NewKey(s, nil)
	return full
}

func TestLeakTakesItsTime(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	s.service.leaks.floor = 300 * time.Millisecond
	for _, key := range []string{s.makeKey().FullKey, s.madeUp()} {
		begun := time.Now()
		s.as("bob", http.MethodPost, leaksPath+"/report", fmt.Sprintf(`{"key":%q}`, key)).received(1)
		if took := time.Since(begun); took < s.service.leaks.floor {
			t.Errorf("response time: got %s", took)
		}
	}
}

type reading struct {
	Store

	reads int
	down  bool
}

func (r *reading) ReportLeak(ctx context.Context, id apikey.ID, l apikey.Leak) (store.LeakResult, checkers.Change, error) {
	r.reads++
	if r.down {
		return "", checkers.Change{}, problem.FromCode(problem.Unavailable).WithCause(io.ErrUnexpectedEOF)
	}
	return r.Store.ReportLeak(ctx, id, l)
}

func TestLeakGarbage(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	r := &reading{Store: s.store}
	s.service.store = r
	garbage := make([]wire.FoundSecret, maxLeaks)
	for i := range garbage {
		garbage[i].Token = fmt.Sprintf("sluice_ab12cd34_%038d", i)
	}
	s.sends(garbage...).received(maxLeaks)
	if r.reads != 0 {
		t.Errorf("reads of the store: got %d", r.reads)
	}
	s.counted("program", "malformed", maxLeaks)
	k := s.makeKey()
	r.down = true
	s.sends(wire.FoundSecret{Token: k.FullKey}).Refused(http.StatusServiceUnavailable, problem.Unavailable)
	s.as("bob", http.MethodPost, leaksPath+"/report", fmt.Sprintf(`{"key":%q}`, k.FullKey)).Refused(http.StatusServiceUnavailable, problem.Unavailable)
	r.down = false
	s.sends(wire.FoundSecret{Token: k.FullKey}).received(1)
	if got := s.stored(k.ID); got.Status != apikey.Disabled {
		t.Errorf("status after the second report: got %s", got.Status)
	}
}

func TestWithoutPrograms(t *testing.T) {
	t.Parallel()
	s := newScanner(t)
	s.service.leaks = newLeakReporter(Config{}, s.service)
	s.sends().Refused(http.StatusUnauthorized, problem.Unauthenticated)
}
