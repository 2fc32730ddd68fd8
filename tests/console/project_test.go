package console

import (
	"crypto/rand"
	"strings"
	"testing"
)

// TestProject: a project's life, by forms alone.
func TestProject(t *testing.T) {
	t.Parallel()
	inEach(t, usual, func(v *visitor) {
		name := "p" + strings.ToLower(rand.Text()[:10])
		v.signsIn(admin())
		v.opens("/console")
		v.clicks("New project")
		v.submits("Create project", "Name", "Not A Name").sees("The project's name has 1 to 40 characters")
		v.submits("Create project", "Name", name).sees("The project is created.", "No environments yet")
		v.shot("project-empty")
		v.clicks("Create the first one")
		v.submits("Create environment", "Name", "prod").sees("The environment is created.", "To the first gated request")
		v.clicks("Apps").sees("No apps yet")
		v.shot("apps-empty")
		v.opens("/console/projects/" + name).sees(name + "-prod") // the namespace
		v.shot("project")
		v.clicks("Delete project")
		v.submits("Delete the project", "Type "+name+" to confirm", name)
		v.sees("The project still has environments. Delete them first.")
		v.clicks("Cancel", "Delete prod")
		v.submits("Delete the environment", "Type prod to confirm", "staging").sees("That is another name. Nothing was done.")
		v.submits("Delete the environment", "Type prod to confirm", "prod").sees("The environment is deleted.")
		v.clicks("Delete project")
		v.types("Type "+name+" to confirm", name)
		v.shot("project-delete")
		v.clicks("Delete the project").sees("The project is deleted.")
	})
}

// TestMembers: roles are given and taken in place, and stale forms change nothing.
func TestMembers(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	ada, bob := s.member("viewer"), person{"b" + strings.ToLower(rand.Text()[:10]), "a long enough password"}

	v.opens("/console/users")
	v.clicks("New user")
	v.submits("Create user", "Username", bob.username, "Password", "short").sees("A password has 12 to 256 characters.")
	v.submits("Create user", "Password", bob.password).sees("The user can sign in now.")

	v.opens("/console/projects/" + s.Project + "/members")
	v.submits("Add member", "Username", "nobody-of-that-name").sees("There is no user")
	v.types("Username", bob.username)
	v.chooses("Role", "developer")
	v.clicks("Add member").sees("The member's role is saved.", bob.username)
	v.shot("members")

	other := browseAs(t, phone.plain(), admin())
	other.opens("/console/projects/" + s.Project + "/members")
	other.chooses("Role of "+bob.username, "owner")
	v.chooses("Role of "+bob.username, "viewer")
	v.clicks("Save the role of " + bob.username).sees("The member's role is saved.")
	other.clicks("Save the role of " + bob.username).sees(bob.username + " is viewer already, so nothing was done.")
	other.shot("members-stale")

	v.clicks("Remove " + ada.username).sees("They see nothing of the project any more.")
	v.clicks("Remove " + ada.username).sees("The member is removed.")
	v.seesNo(ada.username)
}

// TestViewerOfApps: what a role does not allow is not offered, and the API decides.
func TestViewerOfApps(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.App("hello")
	p := s.member("viewer")
	v := browseAs(t, desk, p)
	for path, no := range map[string]string{
		s.page("apps"):                      "New app",
		s.page("apps", "hello", "settings"): "Enable webhook",
		s.page("apps", "hello", "deploys"):  "Deploy an image",
		"/console/projects/" + s.Project:    "New environment",
		"/console/projects":                 "New project",
	} {
		v.opens(path).sees(p.username)
		v.offersNone(no)
	}
	v.opens(s.page("apps", "hello")).sees("Require API key is off.")
	v.shot("app-viewer")
	v.opens(s.page()).sees("To the first gated request")
	v.offersNone("New plan")
	v.opens(s.page("new-app"))
	v.submits("Create app", "Name", "mine", "Image", "registry.example/echo:v1").sees("Your role does not allow this.")
	s.OnlyHas(0, 0, 1)

	stranger := browseAs(t, desk, newSite(t).member("owner"))
	stranger.opens(s.page("apps")).sees("You may not see this")
}
