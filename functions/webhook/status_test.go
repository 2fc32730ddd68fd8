package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

// comes sets the status of a revision as the deploys function would.
func (w *world) comes(address string, revision int64, status deploy.Status, message string) {
	w.Helper()
	_, err := w.store.UpdateDeployment(w.Context(), refOf(address), revision, func(r deploy.Revision) (deploy.Revision, bool) {
		r.Status, r.Message = status, message
		return r, true
	})
	check.OK(w, err)
}

func TestStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ci(hello, `{"image":"`+image2+`","commit":"9fceb02"}`).is(http.StatusAccepted,
		wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2, Commit: "9fceb02"})
	const at = "/deployments/2"
	url := "https://sluice.example.com/api/v1/webhook/" + hello + at
	read := func() *call { return w.ci(hello+at, "").with(hook.TokenHeader, w.token(hello)) }
	is := func(status, message string) {
		t.Helper()
		got := read().by(http.MethodGet)
		got.is(http.StatusOK, wire.WebhookStatus{Status: status, Revision: 2, Image: image2, Commit: "9fceb02", Message: wire.Text(message), StatusURL: url})
	}
	is("rolling_out", "")
	w.comes(hello, 2, deploy.Live, "")
	is("live", "")
	w.comes(hello, 2, deploy.Failed, "It made no progress.")
	is("failed", "It made no progress.")

	for name, address := range map[string]string{
		"no such revision":    hello + "/deployments/9",
		"revision 0":          hello + "/deployments/0",
		"no number":           hello + "/deployments/x",
		"another app's build": hello + "/builds/1",
	} {
		t.Log(name)
		read().to(address).by(http.MethodGet).Refused(http.StatusNotFound, "not_found")
	}

	first := w.call(hello, "").send()
	for name, c := range map[string]*call{
		"no token":                              w.call(hello+at, ""),
		"another app's":                         w.call(hello+at, "").with(hook.TokenHeader, w.token(site)),
		"a signature alone":                     w.call(hello+at, "").with(hook.SignatureHeader, sign(w.token(hello), "")),
		"another app's token, no such revision": w.call(hello+"/deployments/9", "").with(hook.TokenHeader, w.token(site)),
		"an unknown app":                        read().to("shop-prod/nobody/deployments/1"),
	} {
		got := c.by(http.MethodGet)
		if got.Refused(http.StatusUnauthorized, "invalid_token"); string(got.Body) != string(first.Body) {
			t.Errorf("%s: %s", name, string(got.Body))
		}
	}
}

func (c *call) to(address string) *call { c.address = address; return c }

func TestWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct {
		name   string
		status deploy.Status
		want   string
	}{
		{"live", deploy.Live, "deployed"},
		{"failed", deploy.Failed, "failed"},
		{"superseded", deploy.Superseded, "superseded"},
	}
	for i, tt := range tests {
		revision := int64(i + 2)
		send := func() *call {
			return w.ci(hello, `{"image":"`+image2+`"}`).with("Idempotency-Key", tt.name).with("Prefer", "respond-async, wait=60")
		}
		answered := make(chan answer)
		go func() { answered <- send().send() }()
		w.until(func() bool { _, err := w.store.Deployment(t.Context(), refOf(hello), revision); return err == nil })
		select {
		case got := <-answered:
			t.Errorf("%s: got a response before the end: %d %s", tt.name, got.Status, string(got.Body))
		default:
		}
		w.comes(hello, revision, tt.status, "Because.")
		want := wire.WebhookStatus{Status: tt.want, Revision: wire.Ordinal(revision), Image: image2, Message: "Because."}
		(<-answered).is(http.StatusOK, want)
		send().is(http.StatusOK, want)
	}
}

func (w *world) until(is func() bool) {
	w.Helper()
	check.Eventually(w, "meet the condition", 20*time.Second, func() error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
}

// A wait ends with its time limit, the client or the process, or if too many calls wait.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	waits := func(prefer string) *call {
		return w.ci(hello, `{"image":"`+image2+`"}`).with("Idempotency-Key", "1").with("Prefer", prefer)
	}
	rolling := wire.WebhookStatus{Status: "rolling_out", Revision: 2, Image: image2}
	waits("wait=1").is(http.StatusAccepted, rolling)

	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/webhook/"+hello+"/deployments/2", nil)
	r.Header.Set("Prefer", "wait=300")
	w.service.await(httptest.NewRecorder(), r, refOf(hello), startedWork{revision: 2}, time.Hour, rolling)

	_, err := w.store.UpdateDeployment(t.Context(), refOf(hello), 2, func(r deploy.Revision) (deploy.Revision, bool) {
		r.Idle, r.Message = true, "Scaled to zero."
		return r, true
	})
	check.OK(w, err)
	idle := rolling
	idle.Message = "Scaled to zero."
	waits("wait=300").is(http.StatusAccepted, rolling)
	w.ci(hello+"/deployments/2", "").with(hook.TokenHeader, w.token(hello)).with("Prefer", "wait=300").by(http.MethodGet).is(http.StatusOK,
		wire.WebhookStatus{Status: idle.Status, Revision: 2, Image: image2, Message: idle.Message, StatusURL: "https://sluice.example.com/api/v1/webhook/" + hello + "/deployments/2"})

	for range waiters {
		w.service.waiting <- struct{}{}
	}
	waits("wait=300").is(http.StatusAccepted, rolling)
	for range waiters {
		<-w.service.waiting
	}
	ending := make(chan struct{})
	close(ending)
	w.service.ending = ending
	waits("wait=300").is(http.StatusAccepted, rolling)
}

func TestWaitOutlastsTheServersDeadlines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ci(hello, `{"image":"`+image2+`"}`).send()
	server := httptest.NewUnstartedServer(w.handler)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		path, body := "/api/v1/webhook/"+hello, `{"image":"`+image2+`"}`
		if method == http.MethodGet {
			path, body = path+"/deployments/2", ""
		}
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		check.OK(w, err)
		r.Header = http.Header{"Content-Type": {"application/json"}, hook.TokenHeader: {w.token(hello)}, "Prefer": {"wait=1"}}
		start := time.Now()
		res, err := http.DefaultClient.Do(r)
		check.OK(w, err)
		_ = res.Body.Close()
		if took := time.Since(start); res.StatusCode >= 300 || took < time.Second {
			t.Errorf("%s: %d after %s", method, res.StatusCode, took)
		}
	}
}

func TestWaitForBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"fails", "works"} {
		w.ci(site, `{}`).with("Idempotency-Key", name).send()
	}
	observe := func(n int64, run deploy.Run) {
		t.Helper()
		_, err := storetest.ObserveBuild(t.Context(), w.store, refOf(site), n, run, w.clock.Now())
		check.OK(w, err)
	}
	observe(1, deploy.Run{UID: "1", Done: true, Message: "It does not compile."})
	failed := wire.WebhookStatus{Status: "failed", Build: 1, Message: "It does not compile."}
	w.ci(site, `{}`).with("Idempotency-Key", "fails").with("Prefer", "wait=60").is(http.StatusOK, failed)
	observe(2, deploy.Run{UID: "2", Done: true, OK: true, Image: image2, Digest: digest, Commit: commit})
	w.comes(site, 1, deploy.Live, "")
	got := w.ci(site, `{}`).with("Idempotency-Key", "works").with("Prefer", "wait=60").send()
	if got.Status != http.StatusOK || !strings.HasPrefix(string(got.Body), `{"status":"deployed","build":2,"revision":1,"image":"`+image2) {
		t.Errorf("got %d %s", got.Status, string(got.Body))
	}
}
