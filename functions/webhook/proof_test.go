package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/wire"
)

func TestUnproven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.states()
	body := `{"image":"` + image2 + `"}`
	good, token := sign(w.token(hello), body), w.token(hello)
	tests := map[string]*call{
		"no token":                       w.call(hello, body),
		"an empty token":                 w.call(hello, body).with(hook.TokenHeader, ""),
		"a wrong token":                  w.call(hello, body).with(hook.TokenHeader, strings.Repeat("A", 43)),
		"another app's token":            w.call(hello, body).with(hook.TokenHeader, w.token(site)),
		"the token twice":                w.call(hello, body).with(hook.TokenHeader, token).adding(hook.TokenHeader, token),
		"the token as bearer":            w.call(hello, body).with("Authorization", "Bearer "+token),
		"an empty digest":                w.call(hello, body).with(hook.SignatureHeader, "sha256="),
		"upper case":                     w.call(hello, body).with(hook.SignatureHeader, "sha256="+strings.ToUpper(good[7:])),
		"a wrong algorithm":              w.call(hello, body).with(hook.SignatureHeader, "sha1="+good[7:]),
		"one byte changed":               w.call(hello, strings.Replace(body, ":2", ":3", 1)).with(hook.SignatureHeader, good),
		"the same JSON with a blank":     w.call(hello, strings.Replace(body, ":", ": ", 1)).with(hook.SignatureHeader, good),
		"another app's signature":        w.call(hello, body).with(hook.SignatureHeader, sign(w.token(site), body)),
		"a good token, a bad signature":  w.ci(hello, body).with(hook.SignatureHeader, sign(w.token(site), body)),
		"a good signature, a bad token":  w.call(hello, body).with(hook.SignatureHeader, good).with(hook.TokenHeader, w.token(site)),
		"a good signature, twice":        w.call(hello, body).with(hook.SignatureHeader, good).adding(hook.SignatureHeader, good),
		"a good digest in the old way":   w.call(hello, body).with("X-Hub-Signature", good),
		"a bad body, no token":           w.call(hello, `{"image":1`),
		"another content type, no token": w.call(hello, body).with("Content-Type", "text/plain"),
		"a disabled webhook":             w.call(quiet, body).with(hook.TokenHeader, token),
		"an unknown app":                 w.call("shop-prod/nobody", body).with(hook.TokenHeader, token),
		"an unknown namespace":           w.call("bank-prod/hello", body).with(hook.TokenHeader, token),
		"no app's name":                  w.call("shop-prod/Hello_", body).with(hook.TokenHeader, token),
		"a long name":                    w.call("shop-prod/"+strings.Repeat("a", 5000), body).with(hook.TokenHeader, token),
	}
	first := w.call(hello, body).send()
	for name, c := range tests {
		got := c.send()
		if got.Refused(http.StatusUnauthorized, "invalid_token"); string(got.Body) != string(first.Body) {
			t.Errorf("%s: got body %s, want %s", name, string(got.Body), string(first.Body))
		}
		got.Header.Del("X-Request-Id")
		first.Header.Del("X-Request-Id")
		if diff := cmp.Diff(first.Header, got.Header); diff != "" {
			t.Errorf("%s: headers differ from the first response:\n%s", name, diff)
		}
	}
	w.untouched(before)
	if n := w.tags.asked.Load(); n != 0 {
		t.Errorf("registry requests: got %d, want 0", n)
	}
}

func TestProven(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	body := `{"image":"` + image2 + `"}`
	deployed := func(revision int64) any {
		return wire.WebhookStatus{Status: "rolling_out", Revision: wire.Ordinal(revision), Image: image2}
	}
	good := sign(w.token(hello), body)
	w.ci(hello, body).is(http.StatusAccepted, deployed(2))
	w.call(hello, body).with(hook.SignatureHeader, good).is(http.StatusAccepted, deployed(3))
	w.ci(hello, body).with(hook.SignatureHeader, good).is(http.StatusAccepted, deployed(4))
	w.ci(hello, body).with("Content-Type", "application/json; charset=utf-8").is(http.StatusAccepted, deployed(5))

	old := w.ci(hello, body)
	w.enable(hello) // replaces the token
	old.refused(http.StatusUnauthorized, "invalid_token")
	w.ci(hello, body).is(http.StatusAccepted, deployed(6))
	last := w.ci(hello, body)
	w.tokens.set(refOf(hello), "", true)
	last.refused(http.StatusUnauthorized, "invalid_token")
}

func TestOnlyPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
		if got := w.ci(hello, `{}`).by(method); got.Status != http.StatusMethodNotAllowed {
			t.Errorf("%s: got %d", method, got.Status)
		}
	}
}

func TestTokenChangesDuringTheBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.states()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/webhook/"+hello, http.NoBody)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(hook.TokenHeader, w.token(hello))
	body := strings.NewReader(`{"image":"` + image2 + `"}`)
	r.Body = io.NopCloser(readerFunc(func(b []byte) (int, error) {
		w.enable(hello)
		return body.Read(b)
	}))
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	if rec.Code != http.StatusUnauthorized {
		t.Errorf("got %d %s, want 401", rec.Code, rec.Body)
	}
	w.untouched(before)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
