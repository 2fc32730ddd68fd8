package console

import (
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) projects() {
	m.page("/projects", listProjects)
	m.page("/new-project", func(v *visit) error { return newProject(v, form{}) })
	m.change("/projects", createProject)
	m.page("/projects/{project}", showProject)
	m.page("/projects/{project}/delete", func(v *visit) error { return askDeleteProject(v, form{}) })
	m.change("/projects/{project}/delete", deleteProject)
}

type projectsPage struct {
	Projects []wire.Project
	Paging   paging
}

func listProjects(v *visit) error {
	list, err := v.api.ProjectsPage(v.ctx, v.asked())
	if err != nil {
		return err
	}
	return v.show("projects", sheet{Title: "Projects"}, projectsPage{Projects: list.Items, Paging: v.paging(list.NextPageToken)})
}

func newProject(v *visit, f form) error {
	return v.ask("", simple{
		Title: "New project", Action: at("projects"), Button: "Create project", Back: at("projects"), Form: f,
		Lead:   "You become its owner, and can add others then.",
		Inputs: []input{f.Text("name", "Name", labelHint).Need().Like("shop")},
	})
}

// labelHint says what names of projects and environments are like.
const labelHint = "1 to 40 characters: a–z, 0–9 and hyphens, with a letter or digit at both ends."

// nameFields says which codes are about a name.
func nameFields() map[string]string {
	return map[string]string{"invalid_name": "name", "already_exists": "name", "missing_field": "name", "namespace_taken": "name"}
}

func createProject(v *visit) error {
	p, err := v.api.CreateProject(v.ctx, v.typed("name"))
	if err != nil {
		f, ok := v.refused(err, nameFields())
		if !ok {
			return err
		}
		return newProject(v, f)
	}
	return v.done(at("projects", p.Name), noticeProjectCreated)
}

func showProject(v *visit) error {
	return v.show("project", sheet{Title: "Environments", Tab: tabEnvironments}, struct{}{})
}

func askDeleteProject(v *visit, f form) error {
	return v.confirm(tabEnvironments, confirmation{
		Title: "Delete the project " + v.project + "?",
		Lead:  "This cannot be undone. A project that still has environments is not deleted.",
		Type:  v.project, Danger: true, Form: f,
		Action: v.inProject("delete"), Button: "Delete the project", Back: v.inProject(),
	})
}

func deleteProject(v *visit) error {
	if !v.retyped(v.project) {
		return askDeleteProject(v, v.sent("name", wrongName))
	}
	if err := v.api.DeleteProject(v.ctx, v.project); err != nil {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return askDeleteProject(v, f)
	}
	return v.done(at("projects"), noticeProjectDeleted)
}

// wrongName is said when a confirmation's name was typed wrongly.
const wrongName = "That is another name. Nothing was done."
