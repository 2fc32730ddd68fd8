package keys

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
)

func (w *world) once(user, path, body string, names ...string) answer {
	w.Helper()
	return w.send(user, http.MethodPost, path, body, http.Header{api.IdempotencyKey: names})
}

const aKey = `{"plan":"plan-starter"}`

func TestCreateOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	first := w.once("ada", prod+"/api-keys", aKey, "form-1").issued(http.StatusCreated)
	again := w.once("ada", prod+"/api-keys", aKey, "form-1")
	again.Refused(http.StatusConflict, problem.AlreadyIssued)
	if !strings.Contains(string(again.Body), first.ID) || strings.Contains(string(again.Body), first.FullKey) {
		t.Errorf("got %s, want the ID and not the full key", again.Body)
	}
	w.once("ada", prod+"/api-keys", `{"plan":"plan-starter","name":"Another"}`, "form-1").Refused(http.StatusUnprocessableEntity, problem.IdempotencyKeyReused)
	if n := w.countKeys(); n != 1 {
		t.Fatalf("stored keys: got %d", n)
	}
	w.once("ada", prod+"/api-keys", `{ "plan": "plan-starter" }`, "form-1").Refused(http.StatusConflict, problem.AlreadyIssued) // same meaning
	w.once("ada", prod+"/api-keys", aKey, "form-2").issued(http.StatusCreated)
	w.once("olga", prod+"/api-keys", aKey, "form-1").issued(http.StatusCreated) // another caller
	w.clock.Set(w.service.now().Add(apikey.RequestRemembered - time.Second))
	w.once("ada", prod+"/api-keys", aKey, "form-1").Refused(http.StatusConflict, problem.AlreadyIssued)
	w.clock.Set(w.service.now().Add(time.Second))
	w.once("ada", prod+"/api-keys", aKey, "form-1").issued(http.StatusCreated)
}

func TestRefusedIsNotIssued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	w.once("ada", prod+"/api-keys", `{"plan":"plan-none"}`, "form-1").Refused(http.StatusUnprocessableEntity, problem.UnknownPlan)
	w.once("ada", prod+"/api-keys", aKey, "form-1").issued(http.StatusCreated)
}

func TestCreateOnceAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	answers := make([]answer, 5)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = w.once("ada", prod+"/api-keys", aKey, "form-1") })
	}
	all.Wait()
	issued := 0
	for _, a := range answers {
		if a.Status == http.StatusCreated {
			issued++
		} else if a.Status != http.StatusConflict {
			t.Errorf("got %d %s", a.Status, a.Body)
		}
	}
	if n := w.countKeys(); issued != 1 || n != 1 {
		t.Errorf("got %d issued and %d stored", issued, n)
	}
}

func TestRotateOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	key := w.makeKey()
	at := shop + "/api-keys/" + key.ID + "/rotate"
	w.once("ada", at, `{"grace":"721h"}`, "form-1").Refused(http.StatusUnprocessableEntity, problem.InvalidGrace)
	rotated := w.once("ada", at, "{}", "form-1").issued(http.StatusOK)
	w.once("ada", at, "{}", "form-1").Refused(http.StatusConflict, problem.AlreadyIssued)
	w.once("ada", at, `{"grace":"0s"}`, "form-1").Refused(http.StatusUnprocessableEntity, problem.IdempotencyKeyReused)
	w.once("ada", prod+"/api-keys", aKey, "form-1").Refused(http.StatusUnprocessableEntity, problem.IdempotencyKeyReused)
	k := w.stored(key.ID)
	if !k.Secret.Equal(apikey.HashOf([]byte(rotated.FullKey))) || !k.Previous.Equal(apikey.HashOf([]byte(key.FullKey))) {
		t.Error("second call: got other secrets")
	}
	w.once("ada", at, "{}", "form-2").issued(http.StatusOK)
}

func TestIdempotencyKeyRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	for name, names := range map[string][]string{
		"empty": {""}, "twice": {"a", "b"}, "too long": {strings.Repeat("a", 256)}, "a line break": {"a\nb"}, "not ASCII": {"é"},
	} {
		a := w.once("ada", prod+"/api-keys", aKey, names...)
		if a.Status != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", name, a.Status, a.Body)
		}
	}
	if n := w.countKeys(); n != 0 {
		t.Errorf("stored keys: got %d", n)
	}
	w.once("ada", prod+"/api-keys", aKey, strings.Repeat("~", 255)).issued(http.StatusCreated)
}
