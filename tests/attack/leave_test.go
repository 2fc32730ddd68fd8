package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// readsOfFunctions returns a read of each function with sessions, which only members and admins can
// make.
func readsOfFunctions(t *testing.T, project string) map[string]string {
	t.Helper()
	env := "/api/v1/projects/" + project + "/environments/prod"
	reads := map[string]string{
		"session": "/api/v1/users",
		"apps":    "/api/v1/projects/" + project,
		"keys":    env + "/plans",
		"usage":   env + "/usage",
		"deploys": env + "/apps/hello/deployments",
		"builds":  env + "/apps/hello/builds",
	}
	for _, row := range api.Table() {
		if row.Need.Session() && reads[row.Function] == "" {
			t.Errorf("no read of function %s", row.Function)
		}
	}
	return reads
}

// The token of a held session still claims admin rights.
func TestPeopleWhoLeave(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "a held session of an admin after demotion, deactivation, removal, and the end of the sessions",
		"the next request to every function gets 403 or 401")
	s := stacktest.New(t, world)
	s.App("hello")
	reads := readsOfFunctions(t, s.Project)
	change := func(c wire.UpdateUser) func(string) error {
		return func(name string) error { _, err := s.Client.UpdateUser(t.Context(), name, c); return err }
	}
	n := 0
	for _, c := range []struct {
		name string
		do   func(username string) error
		want int
	}{
		{"demote", change(wire.UpdateUser{Admin: wire.Some(false)}), http.StatusForbidden},
		{"deactivate", change(wire.UpdateUser{State: wire.Some("deactivated")}), http.StatusUnauthorized},
		{"end-sessions", func(name string) error { _, err := s.Client.EndSessions(t.Context(), name); return err }, http.StatusUnauthorized},
		{"remove", func(name string) error { _, err := s.Client.RemoveUser(t.Context(), name); return err }, http.StatusUnauthorized},
	} {
		username, password := c.name+"-"+s.Project, "a password of "+c.name
		_, err := s.Client.CreateUser(t.Context(), username, password, true)
		check.OK(t, err)
		held := bearer(t, username, password)
		all := func(want int, when string) {
			t.Helper()
			for function, path := range reads {
				n++
				if a := call(t, request{path: path, token: held}); a.Status != want {
					t.Errorf("%s, %s: got %d %s from %s, want %d", c.name, when, a.Status, a.Body, function, want)
				}
			}
		}
		all(http.StatusOK, "before")
		check.OK(t, c.do(username))
		all(c.want, "afterwards")
	}
	row.Measured(fmt.Sprintf("%d requests to %d functions", n, len(reads)))
}

// A member who is removed from the installation loses the roles; a new user with the same name
// does not get them.
func TestNameOfRemovedUser(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "a new user with the name of a removed user: roles, old sessions, last owner of a project",
		"no roles, 401; 422 `last_owner`")
	s, username, password := person(t)
	held := bearer(t, username, password)
	path := "/api/v1/projects/" + s.Project
	if a := call(t, request{path: path, token: held}); a.Status != http.StatusOK {
		t.Fatalf("owner: got %d %s", a.Status, a.Body)
	}
	admin := adminToken(t)
	remove := request{method: http.MethodDelete, path: "/api/v1/users/" + username, token: admin}
	if a := call(t, remove); a.Status != http.StatusUnprocessableEntity || a.Code() != "last_owner" {
		t.Errorf("last owner: got %d %s", a.Status, a.Body)
	}
	owner := wire.Member{Username: world.Info().Admin.Username, Role: "owner"}
	check.OK(t, s.Client.SetMembers(t.Context(), s.Project, []wire.Member{owner, {Username: username, Role: "owner"}}))
	if a := call(t, remove); a.Status != http.StatusOK {
		t.Errorf("remove: got %d %s", a.Status, a.Body)
	}
	_, err := s.Client.CreateUser(t.Context(), username, password, false)
	check.OK(t, err)
	if a := call(t, request{path: path, token: held}); a.Status != http.StatusUnauthorized {
		t.Errorf("old session: got %d %s", a.Status, a.Body)
	}
	if a := call(t, request{path: path, token: bearer(t, username, password)}); a.Status != http.StatusForbidden {
		t.Errorf("new user: got %d %s", a.Status, a.Body)
	}
	var members wire.List[wire.Member]
	check.OK(t, json.Unmarshal([]byte(call(t, request{path: path + "/members", token: admin}).Body), &members))
	check.Equal(t, "members", []wire.Member{owner}, members.Items)
	row.Measured("5 requests")
}
