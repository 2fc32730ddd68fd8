package console

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestProject(t *testing.T) {
	t.Parallel()
	inEach(t, usual, func(v *visitor) {
		name := "p" + strings.ToLower(rand.Text()[:10])
		v.signsIn(admin())
		v.opens("/console")
		v.clicks("Create project")
		v.submits("Create project", "Name", "Not A Name").sees("The project's name must have 1 to 40 characters")
		v.submits("Create project", "Name", name).sees("Project created.", "No environments")
		v.shot("project-empty")
		v.clicks("Create environment")
		v.submits("Create environment", "Name", "prod").sees("Environment created.", "First steps")
		v.clicks("Apps").sees("No apps")
		v.shot("apps-empty")
		v.opens("/console/projects/" + name).sees(name + "-prod") // the namespace
		v.shot("project")
		v.clicks("Delete project")
		v.submits("Delete project", "Type "+name+" to confirm", name)
		v.sees("The project still has environments. Delete them first.")
		v.clicks("Cancel", "Delete prod")
		v.submits("Delete environment", "Type prod to confirm", "staging").sees("The name does not match. No changes were made.")
		v.submits("Delete environment", "Type prod to confirm", "prod").sees("Environment deleted.")
		v.clicks("Delete project")
		v.types("Type "+name+" to confirm", name)
		v.shot("project-delete")
		v.clicks("Delete project").sees("Project deleted.")
	})
}

func TestMembers(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	ada, bob := s.member("viewer"), person{"b" + strings.ToLower(rand.Text()[:10]), "a long enough password"}

	v.opens("/console/users")
	v.clicks("Create user")
	v.submits("Create user", "Username", bob.username, "Password", "short").sees("A password must have 12 to 256 characters.")
	v.submits("Create user", "Password", bob.password).sees("User created.")

	v.opens("/console/projects/" + s.Project + "/members")
	v.submits("Add member", "Username", "nobody-of-that-name").sees("does not exist.")
	v.types("Username", bob.username)
	v.chooses("Role", "developer")
	v.clicks("Add member").sees("Role saved.", bob.username)
	v.shot("members")

	other := browseAs(t, phone.plain(), admin())
	other.opens("/console/projects/" + s.Project + "/members")
	other.chooses("Role of "+bob.username, "owner")
	v.chooses("Role of "+bob.username, "viewer")
	v.clicks("Save the role of " + bob.username).sees("Role saved.")
	other.clicks("Save the role of " + bob.username).sees("the role of " + bob.username + " is already viewer.")
	other.shot("members-stale")

	v.clicks("Remove " + ada.username).sees(ada.username + " loses access to the project.")
	v.clicks("Remove " + ada.username).sees("Member removed.")
	v.seesNo(ada.username)
}

func TestUsers(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	ada := s.member("owner")
	held := browseAs(t, phone.plain(), ada)
	open := func(action string) {
		t.Helper()
		v.opens("/console/users/" + ada.username + "/" + action)
	}
	v.opens("/console/users").sees("Last sign-in", "Active")
	v.shot("users")

	open("end-sessions")
	v.clicks("End sessions").sees("All sessions of the user have ended.")
	held.opens("/console/projects").sees("Password")
	held.signsInHere(ada)
	held.opens("/console/users").sees("Access denied")

	open("grant-admin")
	v.clicks("Grant admin rights").sees("Admin rights granted.")
	held.opens("/console/users").sees("Create user")
	open("revoke-admin")
	v.clicks("Revoke admin rights").sees("Admin rights revoked.")
	held.opens("/console/users").sees("Access denied")

	c := stacktest.SignIn(t, world, ada.username, ada.password)
	_, _, err := c.CreateToken(t.Context(), s.Project, wire.CreateToken{Name: new("left"), Role: new("viewer")})
	must(t, err)
	open("deactivate")
	v.clicks("Deactivate "+ada.username).sees("Service tokens of "+ada.username, "left", s.Project)
	v.shot("users-tokens")
	v.accessible()
	held.opens("/console/projects").sees("Password")
	open("activate")
	v.clicks("Activate " + ada.username).sees("User activated.")

	held.signsInHere(ada)
	must(t, s.Client.SetMembers(t.Context(), s.Project, []wire.Member{{Username: ada.username, Role: "owner"}}))
	open("remove")
	v.clicks("Remove "+ada.username).sees("would have no active owner", s.Project)
	must(t, s.Client.SetMembers(t.Context(), s.Project, []wire.Member{{Username: admin().username, Role: "owner"}, {Username: ada.username, Role: "owner"}}))
	open("remove")
	v.clicks("Remove "+ada.username).sees("User removed from all projects and deleted.", "left")
	held.opens("/console/projects").sees("Password")
}

func TestEndOwnSessions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ada := s.member("viewer")
	one, two := browseAs(t, desk, ada), browseAs(t, phone.plain(), ada)
	one.opens("/console/account/end-sessions")
	one.clicks("End all sessions").sees("All your sessions have ended.")
	two.opens("/console/projects").sees("Password")
	two.signsInHere(ada)
	two.opens("/console/projects").sees(s.Project)
}

func TestViewerOfApps(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.App("hello")
	p := s.member("viewer")
	v := browseAs(t, desk, p)
	for path, no := range map[string]string{
		s.page("apps"):                      "Create app",
		s.page("apps", "hello", "settings"): "Enable webhook",
		s.page("apps", "hello", "deploys"):  "Deploy an image",
		"/console/projects/" + s.Project:    "Create environment",
		"/console/projects":                 "Create project",
	} {
		v.opens(path).sees(p.username)
		v.offersNone(no)
	}
	v.opens(s.page("apps", "hello")).sees("Require API key is off.")
	v.shot("app-viewer")
	v.opens(s.page()).sees("First steps")
	v.offersNone("Create plan")
	v.opens(s.page("new-app")).sees("Access denied")
	s.OnlyHas(0, 0, 1)

	outsider := browseAs(t, desk, newSite(t).member("owner"))
	outsider.opens(s.page("apps")).sees("Access denied")
}
