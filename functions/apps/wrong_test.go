package apps

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestWrongFields(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	for _, c := range []struct {
		method, path, body string
		want               []string // field and code
	}{
		{"POST", o.apps(""), `{}`, []string{"name missing_field", "image missing_field"}},
		{"POST", o.apps(""), `{"name":"No","host":"x","port":0,"image":"hello"}`, []string{
			"name invalid_name", "host invalid_host", "port invalid_port", "image invalid_image",
		}},
		{"POST", o.apps(""), `{"name":"other","git_source":{"repository":"x","branch":"a b","path":"/"}}`, []string{
			"git_source.repository invalid_git_source", "git_source.branch invalid_git_source", "git_source.path invalid_git_source",
		}},
		{"POST", o.apps(""), `{"name":"other","git_source":{"repository":1}}`, []string{"git_source.repository wrong_type"}},
		{"PUT", o.apps("/hello/git-source"), `{"repository":"x","branch":""}`, []string{"repository invalid_git_source", "branch invalid_git_source"}},
		{"PUT", o.at("/members"), `{"members":[{"username":"ada","role":"owner"},{"username":"ada","role":"boss"},{"username":"dev","role":""}]}`, []string{
			"members[1].role invalid_role", "members[1].username invalid_name", "members[2].role invalid_role",
		}},
		{"PUT", o.at("/members"), `{"members":[{"username":"zoe","role":"owner"},{"username":"ada","role":"owner"},{"username":"bea","role":"viewer"}]}`, []string{
			"members[0].username unknown_user", "members[2].username unknown_user",
		}},
		{"PUT", o.at("/members"), `{}`, []string{"members missing_field"}},
		{"PUT", o.at("/members"), `{"members":[]}`, []string{"members last_owner"}},
	} {
		r := o.as("ada").do(c.method, c.path, c.body)
		var got []string
		for _, e := range functest.Read[wire.Error](r, r.Status).Errors {
			got = append(got, e.Field+" "+e.Code)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s: %s (-want +got):\n%s", r.Call.Path, c.body, r.Body, diff)
		}
	}
}
