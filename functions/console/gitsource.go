package console

import (
	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (r *request) gitSource() wire.GitSource {
	return wire.GitSource{Repository: r.PostForm.Get("repository"), Branch: r.PostForm.Get("branch"), Path: r.PostForm.Get("path")}
}

func sourceText(g *wire.GitSource) string {
	if g == nil {
		return ""
	}
	return g.Repository + " " + g.Branch + " " + g.Path
}

func askGitSource(r *request, f view.Form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	title, button := "Git source of "+a.Name, "Save git source"
	if g := a.GitSource; f.Err == nil && g != nil {
		f = view.FilledForm("repository", g.Repository, "branch", g.Branch, "path", g.Path)
	} else if f.Err == nil {
		f = view.FilledForm("branch", "main")
	}
	return r.ask(tabApps, view.FormPage{
		Title: title, Button: button, Action: r.inApp("settings", "git"), Back: r.inApp("settings"), Form: f,
		Lead:   "Pushes, webhook calls and the Build now button start a build of this source. The app keeps running its current image until the first build is deployed.",
		Hidden: []view.HiddenInput{{Name: "was", Value: sourceText(a.GitSource)}},
		Inputs: gitInputs(f),
	})
}

func gitInputs(f view.Form) []view.Input {
	return []view.Input{
		f.Text("repository", "Repository", "A clone URL over https, http or ssh, without a password.").Require().Placeholder("https://github.com/example/hello.git"),
		f.Text("branch", "Branch", "Pushes to this branch build the app.").Require().Placeholder("main"),
		f.Text("path", "Folder", "The folder to build. The default is the root of the repository.").Placeholder("services/api"),
	}
}

const sourceChanged = "No changes were made: another user changed the git source in the meantime. Review it, then submit again."

func setGitSource(r *request) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if r.PostForm.Get("was") != sourceText(a.GitSource) {
		return askGitSource(r, r.invalid("", sourceChanged))
	}
	if _, err := r.api.SetGitSource(r.Context(), r.project, r.environment, r.app(), r.gitSource()); err != nil {
		return r.again(err, askGitSource)
	}
	return r.done(r.inApp("settings"), noticeGitSet)
}

func askRemoveGitSource(r *request, f view.Form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if a.GitSource == nil {
		return r.done(r.inApp("settings"), noticeNothingChanged)
	}
	image := "The app has no image yet. It does not run until an image is deployed."
	if a.Image != "" {
		image = "The app keeps running " + a.Image + "."
	}
	return r.confirm(tabApps, view.Confirmation{
		Title: "Remove the git source of " + a.Name + "?",
		Lead:  "The app becomes an image app: you deploy it from image references.",
		Points: []string{
			image,
			"Pushes to " + a.GitSource.Repository + " no longer build the app. Webhook calls must then contain an image reference.",
		},
		Hidden: []view.HiddenInput{{Name: "was", Value: sourceText(a.GitSource)}},
		Danger: true, Form: f,
		Action: r.inApp("settings", "git", "remove"), Button: "Remove git source", Back: r.inApp("settings"),
	})
}

func removeGitSource(r *request) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if a.GitSource != nil && r.PostForm.Get("was") != sourceText(a.GitSource) {
		return askRemoveGitSource(r, r.invalid("", sourceChanged))
	}
	if a.GitSource == nil {
		return r.done(r.inApp("settings"), noticeNothingChanged)
	}
	err = r.api.RemoveGitSource(r.Context(), r.project, r.environment, r.app())
	if err != nil && !client.HasCode(err, "not_found") {
		return r.again(err, askRemoveGitSource)
	}
	return r.done(r.inApp("settings"), noticeGitRemoved)
}
