package deploys

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	got := w.deploy("hello:v2")
	want := wire.Deployment{
		Revision: 2, Image: "hello:v2", Trigger: "manual", Actor: "ada", Status: "rolling_out",
		NoDigest:   "The tag was deployed without a digest, because no registry was queried.",
		DeployedAt: got.DeployedAt, Current: true,
	}
	check.Equal(t, "functest.Answer", want, got)
	if time.Since(got.DeployedAt) > time.Minute {
		t.Errorf("deployed at %v", got.DeployedAt)
	}
	w.within("prod", "2 hello:v2 live", "1 hello:v1 superseded")
	w.runs("hello:v2", 2)
}

func TestReadDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.deploy("hello:v2")
	w.within("prod", "2 hello:v2 live", "1 hello:v1 superseded")
	var list wire.List[wire.Deployment]
	check.OK(t, json.Unmarshal(w.as("vera", http.MethodGet, "prod", "hello/deployments", "").Body, &list))
	for _, want := range list.Items {
		a := w.as("vera", http.MethodGet, "prod", fmt.Sprintf("hello/deployments/%d", want.Revision), "")
		var got wire.Deployment
		if err := json.Unmarshal(a.Body, &got); err != nil || a.Status != http.StatusOK || !cmp.Equal(want, got) {
			t.Errorf("%d %v (-want +got):\n%s", a.Status, err, cmp.Diff(want, got))
		}
	}
	for _, path := range []string{"hello/deployments/3", "hello/deployments/0", "hello/deployments/02", "hello/deployments/x", "none/deployments/1"} {
		w.as("vera", http.MethodGet, "prod", path, "").Refused(http.StatusNotFound, problem.NotFound)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	first, second := "sha256:"+strings.Repeat("1", 64), "sha256:"+strings.Repeat("2", 64)
	known := tags{"hello:stable": first}
	w := newWorld(t, func(_ *Config, p *Parts) { p.Registry = known })
	if d := w.deploy("hello:stable"); string(d.Digest) != first {
		t.Errorf("digest: got %q", d.Digest)
	}
	w.within("prod", "2 hello:stable live", "1 hello:v1 superseded")
	known["hello:stable"] = second
	if d := w.deploy("hello:stable"); string(d.Digest) != second {
		t.Errorf("digest: got %q", d.Digest)
	}
	back := made(w.post("hello/rollback", ""))
	if string(back.Digest) != first || back.SourceRevision != 2 || back.Image != "hello:stable" {
		t.Errorf("rolled back to %+v", back)
	}
	w.within("prod", "4 hello:stable live", "3 hello:stable superseded", "2 hello:stable superseded", "1 hello:v1 superseded")
	w.runs("hello:stable@"+first, 4)
}

func TestRefusedDeployments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.addApp("prod", "git", "")
	w.addApp("prod", "lone", "lone:v1")
	long := strings.Repeat("a", 900)
	tests := []struct {
		name, path, body string
		status           int
		code             problem.Code
	}{
		{"no JSON", "hello/deployments", `{"image":`, 400, problem.MalformedJSON},
		{"a number", "hello/deployments", `{"image":7}`, 400, problem.WrongType},
		{"an unknown field", "hello/deployments", `{"image":"hello:v2","tag":"x"}`, 400, problem.UnknownField},
		{"nothing", "hello/deployments", `{}`, 422, problem.MissingField},
		{"null", "hello/deployments", `{"image":null}`, 422, problem.MissingField},
		{"an empty image", "hello/deployments", `{"image":""}`, 422, problem.InvalidImage},
		{"no tag", "hello/deployments", `{"image":"hello"}`, 422, problem.InvalidImage},
		{"a control character", "hello/deployments", `{"image":"hello:\u0000v2"}`, 422, problem.InvalidImage},
		{"a long image", "hello/deployments", `{"image":"` + long + `:v1"}`, 422, problem.InvalidImage},
		{"a git app", "git/deployments", `{"image":"git:v2"}`, 409, problem.GitSourceAttached},
		{"no such app", "other/deployments", `{"image":"hello:v2"}`, 404, problem.NotFound},
		{"an app that cannot be", "Hello%2F/deployments", `{"image":"hello:v2"}`, 404, problem.NotFound},
		{"rollback: no such revision", "hello/rollback", `{"revision":9}`, 404, problem.NotFound},
		{"rollback: zero", "hello/rollback", `{"revision":0}`, 404, problem.NotFound},
		{"rollback: negative", "hello/rollback", `{"revision":-1}`, 404, problem.NotFound},
		{"rollback: huge", "hello/rollback", `{"revision":99999999999999999999}`, 400, problem.WrongType},
		{"rollback: a fraction", "hello/rollback", `{"revision":1.5}`, 400, problem.WrongType},
		{"rollback: nothing before", "hello/rollback", ``, 409, problem.NoPreviousRevision},
		{"rollback: nothing at all", "git/rollback", `{}`, 409, problem.NoPreviousRevision},
		{"promote: nothing", "hello/promote", `{}`, 422, problem.MissingField},
		{"promote: no body", "hello/promote", ``, 415, problem.UnsupportedMediaType},
		{"promote: itself", "hello/promote", `{"from_environment":"prod"}`, 400, problem.InvalidParameter},
		{"promote: no such environment", "hello/promote", `{"from_environment":"qa"}`, 404, problem.NotFound},
		{"promote: an environment that cannot be", "hello/promote", `{"from_environment":"a/../b"}`, 404, problem.NotFound},
		{"promote: no such app there", "lone/promote", `{"from_environment":"staging"}`, 404, problem.NotFound},
		{"promote: a git app", "git/promote", `{"from_environment":"staging"}`, 409, problem.GitSourceAttached},
		{"promote: no ready pod", "hello/promote", `{"from_environment":"staging"}`, 409, problem.RevisionNotLive},
		{"promote: no such revision", "hello/promote", `{"from_environment":"staging","revision":7}`, 404, problem.NotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := *w
			w.TB = t
			w.post(tt.path, tt.body).Refused(tt.status, tt.code)
		})
	}
	for _, path := range []string{"hello/deployments", "hello/rollback", "hello/promote"} {
		w.as("vera", http.MethodPost, "prod", path, `{}`).Refused(http.StatusForbidden, problem.Forbidden)
		w.as("", http.MethodPost, "prod", path, `{}`).Refused(http.StatusUnauthorized, problem.Unauthenticated)
	}
	w.as("bob", http.MethodGet, "prod", "hello/deployments", "").Refused(http.StatusForbidden, problem.Forbidden)
	w.as("vera", http.MethodGet, "prod", "hello/deployments?page_token=x", "").Refused(http.StatusBadRequest, problem.InvalidPage)
	if got := w.history("prod"); len(got) != 1 {
		t.Errorf("rejected calls were recorded: %v", got)
	}
}

func TestHistoryByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for n := 2; n <= 5; n++ {
		w.deploy(fmt.Sprintf("hello:v%d", n))
	}
	var numbers []int64
	for token := ""; ; {
		a := w.as("vera", http.MethodGet, "prod", "hello/deployments?page_size=2&page_token="+token, "")
		var list wire.List[wire.Deployment]
		check.OK(t, json.Unmarshal(a.Body, &list))
		for _, d := range list.Items {
			numbers = append(numbers, d.Revision)
			if d.Current != (d.Revision == 5) {
				t.Errorf("revision %d: current is %v", d.Revision, d.Current)
			}
		}
		if token = list.NextPageToken; token == "" {
			break
		}
	}
	check.Equal(t, "numbers", []int64{5, 4, 3, 2, 1}, numbers)
}

func TestDeploymentsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const deploys = 20
	var mu sync.Mutex
	images := map[int64]string{}
	var all sync.WaitGroup
	for i := range deploys {
		all.Go(func() {
			image := fmt.Sprintf("hello:n%d", i)
			a := w.post("hello/deployments", fmt.Sprintf(`{"image":%q}`, image))
			var d wire.Deployment
			if err := json.Unmarshal(a.Body, &d); err != nil || a.Status != http.StatusAccepted {
				t.Errorf("deploy %d: %d %s", i, a.Status, a.Body)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			images[d.Revision] = d.Image
		})
	}
	all.Wait()
	var numbers []int64
	for n := range images {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	if len(numbers) != deploys || numbers[0] != 2 || numbers[deploys-1] != deploys+1 {
		t.Fatalf("numbers: %v", numbers)
	}
	last := images[deploys+1]
	w.eventually("run the last image", func() error {
		if got, want := w.history("prod")[0], fmt.Sprintf("21 %s live", last); got != want {
			return fmt.Errorf("got %s, want %s", got, want)
		}
		return nil
	})
	w.runs(last, 21)
	for _, line := range w.history("prod")[1:] {
		if !strings.HasSuffix(line, " superseded") {
			t.Errorf("an older revision: %s", line)
		}
	}
}
