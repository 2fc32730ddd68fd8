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

// callLimit is for a call on the management API or a webhook to be answered while
// something is broken: more than any call on a store or a cluster may take.
const callLimit = 30 * time.Second

// scene is what all faults share: a project with a gated app, one without a gate,
// one that its webhook deploys and one that is deployed by hand.
type scene struct {
	*stacktest.Site

	token      string // of the admin's session
	url, proof string // of the webhook
	plan       string // that allows everything
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

// with gives the scene to a subtest.
func (s *scene) with(t *testing.T) *scene {
	t.Helper()
	other := *s
	other.Site = s.For(t)
	return &other
}

// reply is what came back of a call, with the time it took; status 0 is nothing
// within callLimit.
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

// call sends one request, without trying again. header are pairs.
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

// manage calls the management API below the project's environment.
func (s *scene) manage(method, path string, body any) reply {
	return s.call(method, fmt.Sprintf("%s/api/v1/projects/%s/environments/%s/%s", world.Info().BaseURL, s.Project, s.Env, path),
		body, "Authorization", "Bearer "+s.token)
}

// createKey makes a key called name.
func (s *scene) createKey(name string) reply {
	return s.manage(http.MethodPost, "api-keys", map[string]any{"plan": s.plan, "name": name})
}

// hook calls the webhook with a delivery's id.
func (s *scene) hook(image, delivery string) reply {
	return s.call(http.MethodPost, s.url, map[string]any{"image": image}, "X-Service-Token", s.proof, "Idempotency-Key", delivery)
}

// deploy deploys by hand.
func (s *scene) deploy(image string) reply {
	return s.manage(http.MethodPost, "apps/byhand/deployments", map[string]any{"image": image})
}

// roll sends rollup its timer's event.
func (s *scene) roll() reply {
	return s.call(http.MethodPost, world.Info().Functions["rollup"], map[string]any{},
		"Ce-Specversion", "1.0", "Ce-Id", strconv.FormatInt(time.Now().UnixNano(), 36),
		"Ce-Type", "dev.knative.sources.ping", "Ce-Source", "/apis/v1/namespaces/sluice-system/pingsources/rollup")
}

// gets wants a status, and of a refusal its code.
func (s *scene) gets(what string, r reply, status int, code string) {
	s.T.Helper()
	if r.status != status || code != "" && r.code != code {
		s.T.Errorf("%s: %v, want %d %s: %.200s", what, r, status, code, r.body)
	}
}

// revisionsOf are the numbers of an app's revisions with an image.
func (s *scene) revisionsOf(app, image string) (numbers []int64) {
	s.T.Helper()
	for _, d := range s.History(app) {
		if d.Image == image {
			numbers = append(numbers, d.Revision)
		}
	}
	return numbers
}

// keysCalled is how many keys have a name.
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

// image is one for a fault, e.g. "registry.example/echo:store-slow-1".
func image(fault, which string) string {
	return "registry.example/echo:" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(fault)) + "-" + which
}
