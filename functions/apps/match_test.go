package apps

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestAppTag(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	dev, path := o.as("dev"), o.apps("/hello")
	tag := dev.post(o.apps(""), `{"name":"hello","image":"registry.example/hello:v1"}`).Is(201).Tag()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PATCH", path, `{"require_api_key":true}`, 200},
		{"PUT", path + "/git-source", `{"repository":"https://git.example/hello.git","branch":"main"}`, 200},
		{"DELETE", path + "/git-source", "", 204},
	} {
		dev.match(c.method, c.path, c.body, `"of-before"`).Refused(412, "precondition_failed")
		if now := dev.get(path).Is(200).Tag(); now != tag || now == "" {
			t.Errorf("before %s: tag: got %s, want %s", c.body, now, tag)
		}
		made := dev.match(c.method, c.path, c.body, tag).Is(c.status).Tag()
		dev.match(c.method, c.path, c.body, tag).Refused(412, "precondition_failed")
		if tag = dev.get(path).Is(200).Tag(); made != "" && made != tag {
			t.Errorf("tag in the response: got %s, want %s", made, tag)
		}
		o.observe("hello")
	}
	runs := o.state("hello")
	dev.match("DELETE", path, "", `"of-before"`).Refused(412, "precondition_failed")
	if diff := cmp.Diff(runs, o.state("hello")); diff != "" {
		t.Errorf("a rejected deletion changed objects (-before +after):\n%s", diff)
	}
	dev.match("DELETE", path, "", tag).Is(200)
	dev.get(path).Refused(404, "not_found")
}

func (o *office) observe(name string) {
	o.Helper()
	_, err := o.store.UpdateApp(o.Context(), app.Ref{Namespace: o.namespace(), Name: name}, func(a app.App) (app.App, error) {
		a.Gate.Message += "Waiting. "
		a.Deployed.Status = "live"
		return a, nil
	})
	check.OK(o, err)
}

func TestAppAtOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	dev, path := o.as("dev"), o.apps("/hello")
	o.createApp("hello")
	tag := dev.get(path).Is(200).Tag()
	o.once(6, func(i int) functest.Answer {
		switch i % 3 {
		case 0:
			return dev.match("DELETE", path, "", tag)
		case 1:
			return dev.match("PATCH", path, `{"require_api_key":true}`, tag)
		default:
			return dev.match("PUT", path+"/git-source", fmt.Sprintf(`{"repository":"https://git.example/hello.git","branch":"b%d"}`, i), tag)
		}
	})
}

func TestMembersAtOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ada, path := o.as("ada"), o.at("/members")
	tag := ada.get(path).Is(200).Tag()
	if page := ada.get(path + "?page_size=1").Is(200).Tag(); page != tag || tag == "" {
		t.Errorf("tag of a page: got %s, want %s", page, tag)
	}
	o.once(6, func(i int) functest.Answer {
		if i%2 == 0 {
			return ada.match("DELETE", path+"/vic", "", tag)
		}
		return ada.match("PUT", path, `{"members":[{"username":"ada","role":"owner"},{"username":"dev","role":"viewer"}]}`, tag)
	})
	now := ada.get(path).Is(200).Tag()
	if told := ada.match("PUT", path, `{"members":[{"username":"ada","role":"owner"}]}`, now).Is(200).Tag(); told == now || told != ada.get(path).Is(200).Tag() {
		t.Errorf("tag in the response: got %s", told)
	}
	ada.match("PUT", path, `{"members":[{"username":"ada","role":"owner"},{"username":"eve","role":"owner"}]}`, now).Refused(412, "precondition_failed")
	ada.match("DELETE", path+"/vic", "", "*").Refused(404, "not_found")
}

// once makes concurrent calls and checks that exactly one succeeds. The others must find another
// version, or no app.
func (o *office) once(callers int, call func(i int) functest.Answer) {
	o.Helper()
	replies := make([]functest.Answer, callers)
	var all sync.WaitGroup
	for i := range replies {
		all.Go(func() { replies[i] = call(i) })
	}
	all.Wait()
	made := 0
	for _, r := range replies {
		switch {
		case r.Status < 300:
			made++
		case r.Status == http.StatusNotFound:
		default:
			r.Refused(http.StatusPreconditionFailed, problem.PreconditionFailed)
		}
	}
	if made != 1 {
		o.Errorf("%d of %d calls changed the same version, want 1", made, callers)
	}
}
