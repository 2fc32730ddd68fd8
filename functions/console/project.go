package console

import "github.com/sluicegate/sluice/functions/console/internal/view"

func showHome(r *request) error { return r.redirect(at("projects")) }

func listProjects(r *request) error {
	return showList(r, "projects", page{Title: "Projects"}, r.api.ProjectsPage)
}

func newProject(r *request, f view.Form) error {
	return r.ask("", view.FormPage{
		Title: "New project", Action: at("projects"), Button: "Create project", Back: at("projects"), Form: f,
		Lead:   "You become the owner of the project and can then add members.",
		Inputs: []view.Input{f.Text("name", "Name", labelHint).Require().Placeholder("shop")},
	})
}

const labelHint = "1 to 40 characters: a–z, 0–9 and hyphens, with a letter or digit at both ends."

func createProject(r *request) error {
	p, err := r.api.CreateProject(r.Context(), r.PostForm.Get("name"))
	if err != nil {
		return r.again(err, newProject)
	}
	return r.done(at("projects", p.Name), noticeProjectCreated)
}

func showProject(r *request) error {
	return r.show("project", page{Title: "Environments", Tab: tabEnvironments}, struct{}{})
}

func askDeleteProject(r *request, f view.Form) error {
	return r.confirm(tabEnvironments, view.Confirmation{
		Title: "Delete the project " + r.project + "?",
		Lead:  "This cannot be undone. A project that still has environments cannot be deleted. Hosts of its deleted apps stay reserved for 30 days; only an admin can release them earlier.",
		Type:  r.project, Danger: true, Form: f,
		Action: r.inProject("delete"), Button: "Delete project", Back: r.inProject(),
	})
}

func deleteProject(r *request) error {
	if !r.retyped(r.project) {
		return askDeleteProject(r, r.invalid("name", wrongName))
	}
	if err := r.api.DeleteProject(r.Context(), r.project); err != nil {
		return r.again(err, askDeleteProject)
	}
	return r.done(at("projects"), noticeProjectDeleted)
}

func newEnvironment(r *request, f view.Form) error {
	return r.ask(tabEnvironments, view.FormPage{
		Title: "New environment", Action: r.inProject("environments"), Button: "Create environment", Back: r.inProject(), Form: f,
		Lead:   "An environment contains apps, plans and API keys. Its Kubernetes namespace is " + r.project + "-NAME.",
		Inputs: []view.Input{f.Text("name", "Name", labelHint).Require().Placeholder("prod")},
	})
}

func createEnvironment(r *request) error {
	e, err := r.api.CreateEnvironment(r.Context(), r.project, r.PostForm.Get("name"))
	if err != nil {
		return r.again(err, newEnvironment)
	}
	return r.done(at("projects", r.project, "environments", e.Name), noticeEnvironmentCreated)
}

func askDeleteEnvironment(r *request, f view.Form) error {
	return r.confirm("", view.Confirmation{
		Title: "Delete the environment " + r.environment + " of " + r.project + "?",
		Lead:  "This cannot be undone. An environment that still has apps, plans or keys cannot be deleted.",
		Type:  r.environment, Danger: true, Form: f,
		Action: r.inEnvironment("delete"), Button: "Delete environment", Back: r.inProject(),
	})
}

func deleteEnvironment(r *request) error {
	if !r.retyped(r.environment) {
		return askDeleteEnvironment(r, r.invalid("name", wrongName))
	}
	if err := r.api.DeleteEnvironment(r.Context(), r.project, r.environment); err != nil {
		return r.again(err, askDeleteEnvironment)
	}
	return r.done(r.inProject(), noticeEnvironmentDeleted)
}
