package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestChangeNames(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "change IDs: invalid, of other records, of another project; with a wait",
		"the same 404, byte for byte, at once; invalid addresses: 400, 414 or 431")
	s, username, password := person(t)
	mine, other := bearer(t, username, password), stacktest.New(t, world)
	k := s.AnyKey()
	theirs, _ := changeOf(t, other.Project, adminToken(t), other.AnyKey().ID)
	own, real := changeOf(t, s.Project, mine, k.ID)
	names := []string{theirs, k.ID, k.Plan, k.ID + "." + own, own + "x", own[:len(own)-1], strings.ToUpper(own), " " + own, own + "\n", own + "\x00", own + "/", own + "//" + own, "audit/" + own}
	names = append(names, slices.DeleteFunc(hostile(), func(name string) bool { return name == "." || name == ".." })...)
	names = append(names, strings.Repeat("a", 513), strings.Repeat("%", 3000), strings.Repeat(own, 2000))
	var records wire.List[wire.AuditRecord]
	if a := call(t, request{path: "/api/v1/projects/" + s.Project + "/audit", token: mine}); json.Unmarshal([]byte(a.Body), &records) != nil || len(records.Items) < 3 {
		t.Fatalf("audit log: got %d %s", a.Status, a.Body)
	}
	for _, r := range records.Items {
		if !strings.HasPrefix(r.Action, "key.") && !strings.HasPrefix(r.Action, "plan.") {
			names = append(names, r.ID)
		}
	}
	if real.Status != http.StatusOK && real.Status != http.StatusAccepted {
		t.Fatalf("the change itself: got %d %s", real.Status, real.Body)
	}
	address := "/api/v1/projects/" + s.Project + "/changes/"
	want, begun := call(t, request{path: address + strings.Repeat("a", len(own)), token: mine}), time.Now()
	for _, name := range names {
		a, err := send(t, http.MethodGet, address+url.PathEscape(name), "", mine)
		broken := strings.ContainsAny(name, "/\\\x00\r\n") || len(name) > 10_000
		if err != nil || !sameRefusal(a, want) && (!broken || a.Status < 400 || a.Status >= 500) {
			t.Errorf("%.60q: %d %.200s, %v", name, a.Status, a.Body, err)
		}
	}
	if a := call(t, request{path: address + theirs, token: mine, header: []string{api.Prefer, "wait=30"}}); !sameRefusal(a, want) || time.Since(begun) > 25*time.Second {
		t.Errorf("with a wait: got %d %s after %v, want %d at once", a.Status, a.Body, time.Since(begun), http.StatusNotFound)
	}
	row.Measured(fmt.Sprintf("%d names", len(names)+1))
}

func sameRefusal(a, want stacktest.Answer) bool {
	return want.Status == http.StatusNotFound && a.Status == want.Status && a.Body == want.Body && a.Header.Get(api.ChangeID) == ""
}

// changeOf renames a key. It returns the ID of that change, and the response to a query for it.
func changeOf(t *testing.T, project, token, key string) (string, stacktest.Answer) {
	t.Helper()
	a := call(t, request{method: http.MethodPatch, path: "/api/v1/projects/" + project + "/api-keys/" + key, body: `{"name":"changed"}`, token: token})
	name := a.Header.Get(api.ChangeID)
	if a.Status != http.StatusOK || name == "" {
		t.Fatalf("change %s: got %d %s", key, a.Status, a.Body)
	}
	return name, call(t, request{path: "/api/v1/projects/" + project + "/changes/" + name, token: token})
}

// longestWait and waitsAtOnce are the API's limits. responseLimit applies to responses without a
// wait, on a busy machine.
const (
	longestWait   = 30 * time.Second
	waitsAtOnce   = 64
	responseLimit = 20 * time.Second
)

func addSilentChecker(t *testing.T) {
	t.Helper()
	ghost := stacktest.Store(t, world).Doc("keys/canary.ghost")
	_, err := ghost.Set(t.Context(), map[string]any{
		"run": "ghost", "seq": 1, "status": "canary", "applied": time.Unix(0, 0), "ceiling_ms": 90_000, "address": "127.0.0.1:9",
	})
	check.OK(t, err)
	t.Cleanup(func() { _, _ = ghost.Delete(t.Context()) })
}

// preferences maps values of Prefer to the number of seconds that the call may wait; -1 marks
// values that the server may reject.
func preferences() map[string]int {
	return map[string]int{
		"": 0, "wait": 0, "wait=": 0, "wait=0": 0, "wait=-1": 0, "wait=-9223372036854775809": 0, "wait=abc": 0, "wait=1e9": 0, "wait=1.5": 0, "wait=0x1e": 0, "wait=NaN": 0,
		"wait=30s": 0, "wait=99999999999999999999": 0, "wait=1 2": 0, "wait=٣": 0, "waits=30": 0, "x-wait=30": 0, "return=minimal;wait=30": 0, "wait=0, wait=30": 0,
		"wait=x\nwait=30": 0, "=30": 0, ",,,": 0, ";;;wait=30": 0,
		"wait=2": 2, `wait="2"`: 2, "WAIT=2": 2, " wait = 2 ; wait=30": 2, "respond-async, handling=lenient, wait=2, return=minimal": 2, "wait=2, wait=30": 2, "wait=2\nwait=30": 2,
		"x\nrespond-async\nwait=2": 2, strings.Repeat("x, ", 1000) + "wait=2": 2,
		"wait=1000": 30, "wait=2147483647": 30, "respond-async, wait=31": 30,
		strings.Repeat("wait=30, ", 8000): -1, "wait=" + strings.Repeat("9", 70_000): -1, "wait=" + strings.Repeat("9", 900_000): -1,
	}
}

func TestPreferences(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "`Prefer`: invalid, duplicate, negative, 900 kB, with an unresponsive checker; 150 waiting callers",
		"the first `wait` counts, up to 30 s; oversize: 4xx; at most 64 callers wait, others return at once")
	s, username, password := person(t)
	token, plan := bearer(t, username, password), s.Plan(wire.CreatePlan{})
	s.App("hello")
	victim := s.AnyKey()
	s.Opens("hello", victim)
	addSilentChecker(t)
	body := fmt.Sprintf(`{"plan":%q,"name":"preferred"}`, plan.ID)
	var all sync.WaitGroup
	for prefer, seconds := range preferences() {
		all.Go(func() {
			a, took := preferring(t, http.MethodPost, "/api/v1/projects/"+s.Project+"/environments/prod/api-keys", body, token, prefer)
			if !waitedFor(a, took, seconds) {
				t.Errorf("%.60q: %d after %v: %.200s", prefer, a.Status, took, a.Body)
			}
		})
	}
	all.Wait()
	row.Measured(fmt.Sprintf("%d headers; %s", len(preferences()), holdWaits(t, s, token, victim)))
}

// waitedFor reports whether a key was created after a wait of the given seconds. A negative
// number also permits a rejection.
func waitedFor(a stacktest.Answer, took time.Duration, seconds int) bool {
	wait := time.Duration(max(seconds, 0)) * time.Second
	refused := a.Status >= 400 && a.Status < 500
	made := a.Status == http.StatusCreated
	if seconds > 0 {
		made = made && took >= wait && a.Header.Get("Preference-Applied") == fmt.Sprintf("wait=%d", seconds)
	}
	if seconds < 0 {
		return (refused || a.Status == 0 || made) && took < longestWait+responseLimit
	}
	return made && took < wait+responseLimit
}

// preferring sends a request with lines of Prefer. It returns the response and its duration; the
// status is 0 without a response. The proxy's responses are not part of the API description, so
// they are not checked against it.
func preferring(t *testing.T, method, path, body, token, prefer string) (stacktest.Answer, time.Duration) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, world.Info().BaseURL+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return stacktest.Answer{}, 0
	}
	req.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, api.Prefer: strings.Split(prefer, "\n")}
	client := http.Client{Timeout: 2 * longestWait, Transport: &http.Transport{DisableKeepAlives: true}}
	begun := time.Now()
	a, _ := stacktest.Do(&client, req)
	return a, time.Since(begun)
}

// holdWaits starts more waiting calls than the API permits, and measures the duration of other
// calls.
func holdWaits(t *testing.T, s *stacktest.Site, token string, victim stacktest.Key) string {
	t.Helper()
	const callers = 150
	project := "/api/v1/projects/" + s.Project
	change := call(t, request{method: http.MethodPatch, path: project + "/api-keys/" + victim.ID, body: `{"name":"held"}`, token: token}).Header.Get(api.ChangeID)
	var waited atomic.Int64
	answered := make(chan struct{}, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			a, took := preferring(t, http.MethodGet, project+"/changes/"+change, "", token, "wait=30")
			if took >= longestWait {
				waited.Add(1)
			}
			answered <- struct{}{}
			if a.Status != http.StatusAccepted || took >= responseLimit && took < longestWait || took > longestWait+responseLimit {
				t.Errorf("one of %d waiting callers: got %d after %v: %.200s", callers, a.Status, took, a.Body)
			}
		})
	}
	for range callers - waitsAtOnce {
		<-answered
	}
	slowest := time.Duration(0)
	for _, q := range []request{
		{path: project + "/api-keys"},
		{method: http.MethodPatch, path: project + "/api-keys/" + victim.ID, body: `{"name":"other"}`},
		{method: http.MethodPost, path: project + "/api-keys/" + victim.ID + "/revoke", header: []string{api.Prefer, "wait=30"}},
	} {
		q.token = token
		begun := time.Now()
		a := call(t, q)
		took := time.Since(begun)
		slowest = max(slowest, took)
		var e wire.Effect
		held := len(q.header) > 0 && (json.Unmarshal([]byte(a.Body), &e) != nil || e.InForce == nil || e.InForce.Everywhere || a.Status != http.StatusAccepted)
		if a.Status >= 300 || took > responseLimit || held {
			t.Errorf("%s %s with waiting callers: got %d after %v: %s", q.method, q.path, a.Status, took, a.Body)
		}
	}
	s.Refuses("hello", victim)
	all.Wait()
	if n := waited.Load(); n == 0 || n > waitsAtOnce {
		t.Errorf("got %d of %d callers waiting, want 1 to %d", n, callers, waitsAtOnce)
	}
	return fmt.Sprintf("%d of %d callers waited; other calls took at most %v", waited.Load(), callers, slowest.Round(time.Millisecond))
}
