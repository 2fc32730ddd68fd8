package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// callLimit exceeds the timeouts of all calls to the store and the cluster.
const callLimit = 30 * time.Second

// scene is a project with a gated app, one without a gate, one deployed by webhook and one
// deployed by hand.
type scene struct {
	*stacktest.Site

	token      string
	url, proof string
	plan       string // without effective limits
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{Site: stacktest.New(t, world)}
	s.signIn(t)
	s.App("open")
	s.App("hooked")
	s.App("byhand")
	s.GatedApp("hello")
	s.trusted()
	s.url, s.proof = s.Webhook("hooked")
	s.plan = s.AnyKey().Plan
	return s
}

func (s *scene) signIn(t *testing.T) {
	t.Helper()
	session, err := client.New(world.Info().BaseURL).SignIn(t.Context(), world.Info().Admin.Username, world.Info().Admin.Password)
	check.OK(t, err)
	s.token = string(session.Token)
	s.Client = client.New(world.Info().BaseURL).WithToken(session.Token)
}

func (s *scene) with(t *testing.T) *scene {
	t.Helper()
	other := *s
	other.Site = s.For(t)
	return &other
}

// reply is a response and its duration. The status is 0 without a response within callLimit.
type reply struct {
	status int
	code   string
	header http.Header
	body   []byte
	took   time.Duration
}

func (r reply) String() string {
	return fmt.Sprintf("%d %s after %v", r.status, r.code, r.took.Round(time.Millisecond))
}

// call sends one request without retries. header contains pairs.
func (s *scene) call(method, url string, body any, header ...string) reply {
	ctx, cancel := context.WithTimeout(s.T.Context(), callLimit)
	defer cancel()
	text, err := json.Marshal(body)
	check.OK(s.T, err)
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	check.OK(s.T, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	begin := time.Now()
	a, err := stacktest.Do(http.DefaultClient, req)
	if err != nil {
		return reply{code: err.Error(), took: time.Since(begin)}
	}
	return reply{a.Status, a.Code(), a.Header, []byte(a.Body), time.Since(begin)}
}

func (s *scene) manage(method, path string, body any) reply {
	return s.call(method, fmt.Sprintf("%s/api/v1/projects/%s/environments/%s/%s", world.Info().BaseURL, s.Project, s.Env, path),
		body, "Authorization", "Bearer "+s.token)
}

func (s *scene) createKey(name string) reply {
	return s.manage(http.MethodPost, "api-keys", map[string]any{"plan": s.plan, "name": name})
}

func (s *scene) hook(image, delivery string) reply {
	return s.call(http.MethodPost, s.url, map[string]any{"image": image}, "X-Service-Token", s.proof, "Idempotency-Key", delivery)
}

func (s *scene) deploy(image string) reply {
	return s.manage(http.MethodPost, "apps/byhand/deployments", map[string]any{"image": image})
}

// roll sends the timer's event to rollup.
func (s *scene) roll() reply {
	return s.call(http.MethodPost, world.Info().Functions["rollup"], map[string]any{},
		"Ce-Specversion", "1.0", "Ce-Id", strconv.FormatInt(time.Now().UnixNano(), 36),
		"Ce-Type", "dev.knative.sources.ping", "Ce-Source", "/apis/v1/namespaces/sluice-system/pingsources/rollup")
}

// gets checks the status and, unless it is "", the error code.
func (s *scene) gets(what string, r reply, status int, code string) {
	s.T.Helper()
	if r.status != status || code != "" && r.code != code {
		s.T.Errorf("%s: got %v, want %d %s: %.200s", what, r, status, code, r.body)
	}
}

func (s *scene) revisionsOf(app, image string) (numbers []int64) {
	s.T.Helper()
	for _, d := range s.History(app) {
		if d.Image == image {
			numbers = append(numbers, d.Revision)
		}
	}
	return numbers
}

func (s *scene) keysCalled(name string) (n int) {
	s.T.Helper()
	keys, err := client.Collect(s.Client.Keys(s.T.Context(), s.Project, client.KeyFilter{Environment: s.Env}))
	check.OK(s.T, err)
	for _, k := range keys {
		if k.Name == name {
			n++
		}
	}
	return n
}

// image returns an image name, such as "registry.example/echo:store-slow-hook".
func image(fault, which string) string {
	return "registry.example/echo:" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(fault)) + "-" + which
}
