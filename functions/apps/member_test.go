package apps

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	all := []wire.Member{{Username: "ada", Role: "owner"}, {Username: "dev", Role: "developer"}, {Username: "vic", Role: "viewer"}}
	list := func(query string) wire.List[wire.Member] {
		return functest.Read[wire.List[wire.Member]](o.as("vic").get(o.at("/members"+query)), 200)
	}
	check.Equal(t, "members", wire.List[wire.Member]{Items: all}, list(""))
	first := list("?page_size=2")
	check.Equal(t, "first page", all[:2], first.Items)
	check.Equal(t, "second page", wire.List[wire.Member]{Items: all[2:]}, list("?page_size=2&page_token="+first.NextPageToken))
	o.as("vic").get(o.at("/members?page_token=%21")).Refused(400, "invalid_page")
	o.as("eve").get(o.at("/members")).Refused(403, "forbidden")
	if got := functest.Read[wire.Member](o.as("vic").get(o.at("/members/dev")), 200); got != all[1] {
		t.Errorf("member: got %+v, want %+v", got, all[1])
	}
	o.as("vic").get(o.at("/members/eve")).Refused(404, "not_found")
	o.as("eve").get(o.at("/members/dev")).Refused(403, "forbidden")

	tests := []struct {
		name, body string
		status     int
		code       string
	}{
		{"nothing", `{}`, 422, "missing_field"},
		{"no one", `{"members":[]}`, 422, "last_owner"},
		{"no owner", `{"members":[{"username":"dev","role":"developer"}]}`, 422, "last_owner"},
		{"unknown role", `{"members":[{"username":"ada","role":"owner"},{"username":"dev","role":"king"}]}`, 422, "invalid_role"},
		{"no role", `{"members":[{"username":"ada"}]}`, 422, "invalid_role"},
		{"unknown user", `{"members":[{"username":"ada","role":"owner"},{"username":"zoe","role":"viewer"}]}`, 422, "unknown_user"},
		{"no user", `{"members":[{"username":"","role":"owner"}]}`, 422, "unknown_user"},
		{"a path", `{"members":[{"username":"../ada","role":"owner"}]}`, 422, "unknown_user"},
		{"twice", `{"members":[{"username":"ada","role":"owner"},{"username":"ada","role":"viewer"}]}`, 422, "invalid_name"},
		{"unknown field", `{"members":[{"username":"ada","role":"owner","x":1}]}`, 400, "unknown_field"},
		{"wrong type", `{"members":{}}`, 400, "wrong_type"},
	}
	for _, tt := range tests {
		o.as("ada").put(o.at("/members"), tt.body).Refused(tt.status, problem.Code(tt.code))
	}
	check.Equal(t, "members after refused changes", all, list("").Items)
	o.as("dev").put(o.at("/members"), `{"members":[{"username":"dev","role":"owner"}]}`).Refused(403, "forbidden")

	o.as("dev").delete(o.at("/members/vic")).Refused(403, "forbidden")
	o.as("ada").delete(o.at("/members/zoe")).Refused(404, "not_found")
	o.as("ada").delete(o.at("/members/ada")).Refused(422, "last_owner")
	o.as("ada").delete(o.at("/members/vic")).Is(204)
	o.as("vic").get(o.at("/members")).Refused(403, "forbidden")
	got := functest.Read[wire.List[wire.Member]](o.as("ada").put(o.at("/members"), `{"members":[{"username":"eve","role":"owner"}]}`), 200)
	check.Equal(t, "new members", []wire.Member{{Username: "eve", Role: "owner"}}, got.Items)
	o.as("ada").get(o.at("")).Refused(403, "forbidden")
}

// Deactivated owners do not count.
func TestActiveOwnerRemains(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.as("ada").put(o.at("/members"), `{"members":[{"username":"ada","role":"owner"},{"username":"dev","role":"owner"},{"username":"vic","role":"viewer"}]}`).Is(200)
	_, err := o.store.UpdateUser(t.Context(), "dev", func(u user.User) (user.User, error) { return u.WithState(user.Deactivated, time.Now()), nil })
	check.OK(t, err)
	o.as("ada").delete(o.at("/members/ada")).Refused(422, "last_owner")
	o.as("ada").put(o.at("/members"), `{"members":[{"username":"dev","role":"owner"},{"username":"ada","role":"developer"}]}`).Refused(422, "last_owner")
	o.as("ada").delete(o.at("/members/dev")).Is(204)
	o.as("ada").delete(o.at("/members/ada")).Refused(422, "last_owner")
	o.as("ada").put(o.at("/members"), `{"members":[{"username":"ada","role":"owner"},{"username":"dev","role":"owner"},{"username":"vic","role":"viewer"}]}`).Is(200)
	_, err = o.store.UpdateUser(t.Context(), "ada", func(u user.User) (user.User, error) { return u.WithState(user.Deactivated, time.Now()), nil })
	check.OK(t, err)
	o.as("root").delete(o.at("/members/vic")).Is(204) // not an owner
	o.as("root").delete(o.at("/members/dev")).Refused(422, "last_owner")
	o.as("root").put(o.at("/members"), `{"members":[{"username":"ada","role":"owner"},{"username":"dev","role":"owner"},{"username":"eve","role":"viewer"}]}`).Is(200) // all owners remain
	o.as("root").put(o.at("/members"), `{"members":[{"username":"ada","role":"owner"},{"username":"dev","role":"viewer"},{"username":"eve","role":"viewer"}]}`).Refused(422, "last_owner")
	o.as("root").put(o.at("/members"), `{"members":[{"username":"eve","role":"owner"}]}`).Is(200)
}
