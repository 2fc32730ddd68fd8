package proxies

import (
	"bufio"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

type keys struct {
	good    stacktest.Key // named, without effective limits
	unnamed stacktest.Key
	foreign stacktest.Key // for another app
	slow    stacktest.Key // one request, then rate_limited
	used    stacktest.Key // one request, then quota_exhausted
}

func newKeys(s *stacktest.Site) keys {
	rate, burst, quota, period := 0.01, int64(1), int64(1), "month"
	anything := s.Plan(wire.CreatePlan{})
	name := "Checkout team"
	other := []string{"other"}
	return keys{
		good:    s.Key(anything, func(k *wire.CreateKey) { k.Name = name }),
		unnamed: s.Key(anything),
		foreign: s.Key(anything, func(k *wire.CreateKey) { k.Apps = other }),
		slow:    s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst})),
		used:    s.Key(s.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period})),
	}
}

func TestContract(t *testing.T) {
	s := stacktest.New(t, world)
	s.App("hello")
	s.App("other")
	ready := s.AnyKey()
	s.Opens("hello", ready)
	for _, p := range proxies() {
		t.Run(p.name, func(t *testing.T) {
			g := p.start(t, s, "hello")
			for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
				t.Run(protocol, func(t *testing.T) { g.contract(t, protocol) })
			}
			t.Run("web sockets", g.webSockets)
			t.Run("upgrades", g.upgrades)
			t.Run("nominated headers", g.nominated)
		})
	}
}

func (g *gated) contract(t *testing.T, protocol string) {
	t.Helper()
	k := newKeys(g.Site)
	g.Opens("other", k.foreign)
	g.Opens("hello", k.unnamed)
	allowed := uint64(0)
	t.Run("refused", func(t *testing.T) { g.refused(t, protocol, k) })
	t.Run("request id", func(t *testing.T) { g.requestID(t, protocol) })
	t.Run("allowed", func(t *testing.T) { allowed += g.allowed(t, protocol, k) })
	t.Run("identity headers", func(t *testing.T) { allowed += g.identity(t, protocol, k) })
	t.Run("the app's own errors", func(t *testing.T) { allowed += g.ownErrors(t, protocol, k) })
	t.Run("preflight", func(t *testing.T) { g.preflights(t, protocol) })
	t.Run("endless bodies", func(t *testing.T) { g.endless(t, protocol) })
	t.Run("trailers", func(t *testing.T) { g.trailers(t, protocol, k.unnamed) })
	t.Run("limits", func(t *testing.T) { g.limits(t, protocol, k) })
	t.Run("streams", func(t *testing.T) { allowed += g.streams(t, protocol, k) })
	g.Until("count each request once", func() bool {
		u, err := g.Client.Usage(t.Context(), g.Project, k.good.ID, "", "")
		return err == nil && u.Totals.Allowed == allowed && u.Totals.RateDenied == 0 && u.Totals.QuotaDenied == 0
	})
}

func (g *gated) refused(t *testing.T, protocol string, k keys) {
	t.Helper()
	other := k.unnamed.Full
	for name, r := range map[string]request{
		"no key":             {},
		"not a key":          with("X-API-Key", "nonsense"),
		"an unknown key":     with("X-API-Key", "sluice_00000000_00000000000000000000000000000000000000"),
		"a key of other app": keyed(k.foreign),
		"an empty key":       with("X-API-Key", ""),
		"the same key twice": keyed(k.good, "X-API-Key", k.good.Full),
		"two good keys":      keyed(k.good, "X-API-Key", other),
		"good, then bad":     keyed(k.good, "X-API-Key", "bad"),
		"bad, then good":     with("X-API-Key", "bad", "X-API-Key", k.good.Full),
		"in one line":        with("X-API-Key", k.good.Full+", "+other),
		"an alias":           with("X_API_Key", k.good.Full, "X.API.Key", k.good.Full),
		"a false method":     with("X-Forwarded-Method", "OPTIONS", "Access-Control-Request-Method", "GET"),
		"an old identity":    with("X-Service-Key-Prefix", k.good.Prefix, "X-Service-Key-Name", "Checkout team"),
		"OPTIONS, no CORS":   {method: http.MethodOptions},
		"no preflight":       with("Origin", "https://shop.example", "Access-Control-Request-Method", "GET"),
		"a body":             {method: http.MethodPost, body: make([]byte, 256<<10)},
		"a checker's path":   {path: "/check/" + g.Project + "-" + g.Env + "/other"},
		"the check's path":   {path: "/.sluice-check"},
	} {
		if name == "the check's path" && g.proxy.name == "nginx" {
			continue // nginx returns 404
		}
		t.Run(name, func(t *testing.T) {
			var a stacktest.Answer
			var err error
			g.Until("answer", func() bool {
				a, err = g.try(t, protocol, r)
				return err == nil || !g.breaksOff(protocol, r)
			})
			check.OK(t, err)
			denied(t, a, http.StatusUnauthorized, "invalid_key", "")
		})
	}
}

// breaksOff reports whether a denied request's connection may end without a response (see
// infra/proxies/README.md).
func (g *gated) breaksOff(protocol string, r request) bool {
	return g.proxy.name == "haproxy" && protocol == "HTTP/1.1" && len(r.body) > 0
}

func (g *gated) requestID(t *testing.T, protocol string) {
	t.Helper()
	if a := g.send(t, protocol, with("X-Request-Id", "checkout-4711")); a.Header.Get("X-Request-Id") != "checkout-4711" {
		t.Errorf("request ID of the denial: got %q, want checkout-4711", a.Header.Get("X-Request-Id"))
	}
	if a := g.send(t, protocol, request{}); a.Header.Get("X-Request-Id") == "" {
		t.Error("the denial has no request ID")
	}
}

func (g *gated) allowed(t *testing.T, protocol string, k keys) (n uint64) {
	t.Helper()
	big := make([]byte, 5<<20)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		r := keyed(k.good, "Cookie", "a=b", "Authorization", "Bearer app", "X-Other", "kept")
		r.method, r.path = method, "/a//b/%2e%2e/c?x=1&y=%2F"
		if method == http.MethodPost {
			r.body = big
		}
		a := g.send(t, protocol, r)
		if a.Status != http.StatusOK {
			t.Fatalf("%s: got %d %s, want %d", method, a.Status, a.Body, http.StatusOK)
		}
		n++
		e := g.echo(t, a)
		if e.Method != method || e.BodyBytes != int64(len(r.body)) || !strings.HasSuffix(e.Path, "c?x=1&y=%2F") {
			t.Errorf("the app got %s %s and %d bytes", e.Method, e.Path, e.BodyBytes)
		}
		if values(e, "X-Other") != "kept" || values(e, "Authorization") != "Bearer app" || values(e, "Cookie") != "a=b" {
			t.Errorf("the app got the headers %v", e.Headers)
		}
		g.anonymous(t, e, k)
		if values(e, "X-Service-Key-Prefix") != k.good.Prefix || values(e, "X-Service-Key-Name") != "Checkout team" {
			t.Errorf("the app got the identity %q, %q", values(e, "X-Service-Key-Prefix"), values(e, "X-Service-Key-Name"))
		}
	}
	r := keyed(k.good)
	r.method = http.MethodHead
	if a := g.send(t, protocol, r); a.Status != http.StatusOK {
		t.Errorf("HEAD: got %d, want %d", a.Status, http.StatusOK)
	}
	return n + 1
}

func values(e stacktest.Echo, name string) string {
	var all []string
	for n, v := range e.Headers {
		if strings.EqualFold(n, name) {
			all = append(all, v...)
		}
	}
	return strings.Join(all, "|")
}

func (g *gated) anonymous(t *testing.T, e stacktest.Echo, k keys) {
	t.Helper()
	for name, v := range e.Headers {
		for _, key := range []stacktest.Key{k.good, k.unnamed} {
			if strings.Contains(strings.Join(v, " "), key.Full) {
				t.Errorf("the app got the key in %s", name)
			}
		}
	}
}

const separators = "-_.!#$%&'*+^`|~"

// spellings returns variants of a header name with other separators.
func spellings(name string) []string {
	parts := strings.Split(name, "-")
	var all []string
	for _, sep := range strings.Split(separators, "") {
		all = append(all, strings.Join(parts, sep))
		for i := 1; i < len(parts) && sep != "-"; i++ {
			all = append(all, strings.Join(parts[:i], "-")+sep+strings.Join(parts[i:], "-"))
		}
	}
	for _, mixed := range []string{"_.~", "._-", "~!_"} {
		alias := name
		for _, sep := range strings.Split(mixed, "") {
			alias = strings.Replace(alias, "-", sep, 1)
		}
		all = append(all, alias)
	}
	return all
}

func casings() []func(string) string {
	return []func(string) string{strings.ToLower, strings.ToUpper, func(name string) string { return name }}
}

// identity returns the number of requests with the good key.
func (g *gated) identity(t *testing.T, protocol string, k keys) (n uint64) {
	t.Helper()
	names := slices.Concat(spellings("X-Service-Key-Prefix"), spellings("X-Service-Key-Name"), spellings("X-API-Key")[1:]) // the first one is the key's own
	for _, written := range casings() {
		for some := range slices.Chunk(names, 60) { // HAProxy accepts 101 headers
			for _, key := range []stacktest.Key{k.good, k.unnamed} {
				r := keyed(key)
				for _, name := range some {
					r.header[written(name)] = []string{"forged"}
				}
				g.identified(t, g.echo(t, g.send(t, protocol, r)), key)
			}
			n++
		}
	}
	return n
}

// identified checks that the app gets only the checker's identity headers.
func (g *gated) identified(t *testing.T, e stacktest.Echo, k stacktest.Key) {
	t.Helper()
	for header, v := range e.Headers {
		if strings.Contains(strings.Join(v, " "), "forged") || strings.EqualFold(header, "X-API-Key") {
			t.Errorf("the app got %s: %v", header, v)
		}
		if strings.EqualFold(header, "X-Service-Key-Name") && k.Name == "" {
			t.Errorf("the app got %s: %v", header, v)
		}
	}
	if got := values(e, "X-Service-Key-Prefix"); got != k.Prefix {
		t.Errorf("prefix: got %q, want %q", got, k.Prefix)
	}
	if got := values(e, "X-Service-Key-Name"); got != k.Name {
		t.Errorf("name: got %q, want %q", got, k.Name)
	}
}

// ownErrors checks that the proxy passes on the app's responses.
func (g *gated) ownErrors(t *testing.T, protocol string, k keys) (n uint64) {
	t.Helper()
	for _, status := range []int{201, 401, 403, 404, 429, 500, 502, 503, 504} {
		r := keyed(k.good)
		r.path = "/status/" + strconv.Itoa(status)
		a := g.send(t, protocol, r)
		if a.Status != status || a.Header.Get("Retry-After") != "" || a.Header.Get("Cache-Control") != "" {
			t.Errorf("status %d: got %d, headers %v", status, a.Status, a.Header)
		}
		if e := g.echo(t, a); e.Path != r.path {
			t.Errorf("status %d: path: got %s, want %s", status, e.Path, r.path)
		}
		n++
	}
	return n
}

func preflight(pairs ...string) request {
	r := with(append([]string{"Access-Control-Request-Method", "PUT", "Origin", "https://shop.example"}, pairs...)...)
	r.method = http.MethodOptions
	return r
}

// preflights carry no identity and are not counted.
func (g *gated) preflights(t *testing.T, protocol string) {
	t.Helper()
	a := g.send(t, protocol, preflight("X-Service-Key-Prefix", "forged"))
	if a.Status != http.StatusOK {
		t.Fatalf("got %d %s, want %d", a.Status, a.Body, http.StatusOK)
	}
	e := g.echo(t, a)
	for name := range e.Headers {
		if strings.HasPrefix(strings.ToLower(name), "x-service-key") {
			t.Errorf("the app got %s: %v", name, e.Headers[name])
		}
	}
	g.powerless(t, protocol)
	g.bodiless(t, protocol)
}

func (g *gated) powerless(t *testing.T, protocol string) {
	t.Helper()
	names := slices.Concat([]string{"Cookie", "Authorization"},
		spellings("X-HTTP-Method-Override"), spellings("X-HTTP-Method"), spellings("X-Method-Override"))
	for _, written := range casings() {
		for some := range slices.Chunk(names, 60) { // HAProxy accepts 101 headers
			r := preflight("X-Other", "kept")
			for _, name := range some {
				r.header[written(name)] = []string{"DELETE"}
			}
			e := g.echo(t, g.send(t, protocol, r))
			for header, v := range e.Headers {
				if strings.Contains(strings.Join(v, " "), "DELETE") {
					t.Errorf("the app got %s: %v", header, v)
				}
			}
			if got := values(e, "X-Other"); e.Method != http.MethodOptions || got != "kept" {
				t.Errorf("the app got %s with X-Other %q", e.Method, got)
			}
		}
	}
}

// bodiless checks that preflights carry no body to the app.
func (g *gated) bodiless(t *testing.T, protocol string) {
	t.Helper()
	asks := preflight()
	noMethod := preflight()
	noMethod.header.Set("Access-Control-Request-Method", "")
	for name, r := range map[string]request{"preflight": asks, "preflight for no method": noMethod} {
		for _, size := range []int{1, 2, 256 << 10} {
			for _, streamed := range []bool{false, true} {
				r.body, r.streamed = make([]byte, size), streamed
				a, err := g.try(t, protocol, r)
				if err != nil || a.Status != http.StatusOK {
					continue // denied
				}
				if e := g.echo(t, a); e.BodyBytes > 0 && (size > 1 || g.proxy.name != "caddy") {
					t.Errorf("%s: the app got a body of %d bytes, streamed %t", name, e.BodyBytes, streamed)
				}
			}
		}
	}
}

// limits takes some requests: replicas exchange counts with a delay.
func (g *gated) limits(t *testing.T, protocol string, k keys) {
	t.Helper()
	for _, tt := range []struct {
		code          string
		key           stacktest.Key
		policy, limit string
	}{{"rate_limited", k.slow, `"rate";q=1;w=100`, `"rate";r=0;t=`}, {"quota_exhausted", k.used, `"quota";q=1;w=2`, `"quota";r=0;t=`}} {
		t.Run(tt.code, func(t *testing.T) {
			var a stacktest.Answer
			g.Until("reach the limit", func() bool {
				a = g.send(t, protocol, keyed(tt.key))
				return a.Status == http.StatusTooManyRequests
			})
			retryAfter := a.Header.Get("Retry-After")
			if tt.code == "rate_limited" && retryAfter != "1" || retryAfter == "" || retryAfter == "0" {
				t.Errorf("Retry-After: got %q", retryAfter)
			}
			denied(t, a, http.StatusTooManyRequests, tt.code, retryAfter)
			policy, limit := a.Header.Values("RateLimit-Policy"), a.Header.Values("RateLimit")
			if len(policy) != 1 || !strings.Contains(policy[0], tt.policy) || len(limit) != 1 || !strings.Contains(limit[0], tt.limit) {
				t.Errorf("RateLimit headers: got %q, %q, want %s, %s", policy, limit, tt.policy, tt.limit)
			}
		})
	}
	t.Run("of what is allowed", func(t *testing.T) { g.rateLimitHeaders(t, protocol) })
}

// rateLimitHeaders checks that only the client gets the remaining limits, next to the app's own
// headers.
func (g *gated) rateLimitHeaders(t *testing.T, protocol string) {
	t.Helper()
	quota, period := int64(1000), "day"
	k := g.Key(g.Plan(wire.CreatePlan{Quota: &quota, QuotaPeriod: &period}))
	g.Opens("other", k)
	forged := []string{"RateLimit", "forged", "RateLimit-Policy", "forged", "X-Sluice-Limit", "forged", "X-Sluice-Policy", "forged"}
	r := keyed(k, forged...)
	r.path = "/status/503"
	a := g.send(t, protocol, r)
	policy, limit := strings.Join(a.Header.Values("RateLimit-Policy"), ", "), strings.Join(a.Header.Values("RateLimit"), ", ")
	if g.proxy.name == "traefik" { // see infra/proxies/README.md
		if policy != "" || limit != "" {
			t.Errorf("got policy %q and limit %q, want none", policy, limit)
		}
		return
	}
	want := regexp.MustCompile(`^"rate";r=\d+;t=\d+, "quota";r=99\d;t=\d+$`)
	if !strings.HasSuffix(policy, `, "quota";q=1000;w=86400`) || !want.MatchString(limit) || a.Status != http.StatusServiceUnavailable {
		t.Errorf("got %d, policy %q, limit %q", a.Status, policy, limit)
	}
	e := g.echo(t, a)
	if seen := values(e, "X-Sluice-Limit") + values(e, "X-Sluice-Policy"); strings.Contains(seen, `"rate"`) {
		t.Errorf("the app got %q", seen)
	}
	p := g.send(t, protocol, preflight(forged...))
	if p.Header.Get("RateLimit") != "" || p.Header.Get("RateLimit-Policy") != "" {
		t.Errorf("a preflight got %v", p.Header)
	}
}

// streams checks that flushed data arrives immediately.
func (g *gated) streams(t *testing.T, protocol string, k keys) (n uint64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url("/stream?chunks=4&interval=500ms"), nil)
	check.OK(t, err)
	req.Header.Set("X-API-Key", k.good.Full)
	res, err := g.clients[protocol].Do(req)
	check.OK(t, err)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	var arrived []time.Time
	for lines.Scan() {
		arrived = append(arrived, time.Now())
	}
	if len(arrived) != 4 || arrived[3].Sub(arrived[0]) < 750*time.Millisecond {
		t.Errorf("got %d chunks at %v, want 4 separate ones", len(arrived), arrived)
	}
	return 1
}

func (g *gated) webSockets(t *testing.T) {
	t.Helper()
	k := g.AnyKey()
	options := func(key string) *websocket.DialOptions {
		return &websocket.DialOptions{HTTPClient: g.clients["HTTP/1.1"], HTTPHeader: http.Header{"X-API-Key": {key}}}
	}
	if c, res, err := websocket.Dial(t.Context(), g.url("/ws"), options("")); err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
		if c != nil {
			_ = c.CloseNow()
		}
		t.Errorf("without a key: got %v, %v", res, err)
	}
	var c *websocket.Conn
	g.Until("open a web socket", func() bool {
		var err error
		c, _, err = websocket.Dial(t.Context(), g.url("/ws"), options(k.Full))
		return err == nil
	})
	defer c.CloseNow()
	for _, text := range []string{"one", "two"} {
		check.OK(t, c.Write(t.Context(), websocket.MessageText, []byte(text)))
		if _, got, err := c.Read(t.Context()); err != nil || string(got) != text {
			t.Errorf("message: got %q, %v, want %q", got, err, text)
		}
	}
}
