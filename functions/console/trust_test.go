package console

import (
	"net/url"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
)

func TestTrusts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	const settings = helloPath + "/settings"
	const appCall = "/api/v1/projects/shop/environments/prod/apps/hello"
	const call = "POST " + appCall + "/webhook/trusts"
	o.answer(call, 201, wire.Trust{ID: "trust-k3xq7m2pza"})
	typed := url.Values{"provider": {"gitlab"}, "issuer": {"https://gitlab.com"}, "repository": {"org/repo"}}
	o.post(settings+"/webhook/trusts", typed)
	typed.Set("unprotected", "on")
	o.post(settings+"/webhook/trusts", typed)
	want := []string{
		`{"provider":"gitlab","issuer":"https://gitlab.com","claims":{"project_path":"org/repo"}}`,
		`{"provider":"gitlab","issuer":"https://gitlab.com","claims":{"project_path":"org/repo","ref_protected":"*"}}`,
	}
	got := o.changes()
	for i := range want {
		if len(got) != len(want) || strings.TrimSpace(got[i]) != call+" "+want[i] {
			t.Fatalf("got the calls %q, want %q", got, want)
		}
	}
	o.hello("ungated", "")
	for _, open := range []bool{true, false} {
		o.answer("GET "+appCall+"/webhook/trusts", 200, wire.List[wire.Trust]{Items: []wire.Trust{{ID: "trust-k3xq7m2pza", Provider: "github", Open: open}}})
		if body := o.get(settings).Text(); strings.Contains(body, "This trust is too broad") != open {
			t.Errorf("open %t: notice: got %t, want %t", open, !open, open)
		}
	}
}
