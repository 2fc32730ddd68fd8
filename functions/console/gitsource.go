package console

import (
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) gitSources() {
	m.page(inApp+"/settings/git", func(v *visit) error { return askGitSource(v, form{}) })
	m.change(inApp+"/settings/git", setGitSource)
	m.page(inApp+"/settings/git/remove", func(v *visit) error { return askRemoveGitSource(v, form{}) })
	m.change(inApp+"/settings/git/remove", removeGitSource)
}

// gitSource is the git source that a form holds.
func (v *visit) gitSource() wire.GitSource {
	return wire.GitSource{Repository: v.typed("repository"), Branch: v.typed("branch"), Path: v.typed("path")}
}

// sourceText is a git source in one line, to tell whether it has changed.
func sourceText(g *wire.GitSource) string {
	if g == nil {
		return ""
	}
	return g.Repository + " " + g.Branch + " " + g.Path
}

func askGitSource(v *visit, f form) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	title, button := "Build "+a.Name+" from git", "Save the git source"
	if g := a.GitSource; f.Refusal == nil && g != nil {
		title = "Change the git source of " + a.Name
		f = filled("repository", g.Repository, "branch", g.Branch, "path", g.Path)
	} else if f.Refusal == nil {
		f = filled("branch", "main")
	}
	return v.ask(tabApps, simple{
		Title: title, Button: button, Action: v.inApp("settings", "git"), Back: v.inApp("settings"), Form: f,
		Lead:   "Builds are made from here, for webhook calls, for pushes and on demand. What runs now keeps running until the first build is deployed.",
		Based:  []based{{"was", sourceText(a.GitSource)}},
		Inputs: gitInputs(f),
	})
}

// gitInputs are the fields of a git source.
func gitInputs(f form) []input {
	return []input{
		f.Text("repository", "Repository", "A clone URL over https, http or ssh, without a password.").Need().Like("https://github.com/example/hello.git"),
		f.Text("branch", "Branch", "Pushes to it build the app.").Need().Like("main"),
		f.Text("path", "Folder", "Inside the repository, if not its root.").Like("services/api"),
	}
}

const sourceChanged = "Somebody has changed the git source meanwhile, so nothing was done. This is how it is now."

func setGitSource(v *visit) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if v.typed("was") != sourceText(a.GitSource) {
		return askGitSource(v, v.sent("", sourceChanged))
	}
	if _, err := v.api.SetGitSource(v.ctx, v.project, v.environment, v.app(), v.gitSource()); err != nil {
		f, ok := v.refused(err, map[string]string{"invalid_git_source": "repository"})
		if !ok {
			return err
		}
		return askGitSource(v, f)
	}
	return v.done(v.inApp("settings"), noticeGitSet)
}

func askRemoveGitSource(v *visit, f form) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if a.GitSource == nil {
		return v.done(v.inApp("settings"), noticeNothingChanged)
	}
	image := "It has no image yet: nothing runs until one is deployed."
	if a.Image != "" {
		image = "It keeps running " + a.Image + "."
	}
	return v.confirm(tabApps, confirmation{
		Title: "Remove the git source of " + a.Name + "?",
		Lead:  "The app becomes an image app: it is deployed from image references from then on.",
		Points: []string{
			image,
			"Pushes to " + a.GitSource.Repository + " build nothing any more; webhook calls have to name an image.",
		},
		Based:  []based{{"was", sourceText(a.GitSource)}},
		Danger: true, Form: f,
		Action: v.inApp("settings", "git", "remove"), Button: "Remove the git source", Back: v.inApp("settings"),
	})
}

func removeGitSource(v *visit) error {
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if a.GitSource != nil && v.typed("was") != sourceText(a.GitSource) {
		return askRemoveGitSource(v, v.sent("", sourceChanged))
	}
	if a.GitSource == nil {
		return v.done(v.inApp("settings"), noticeNothingChanged)
	}
	err = v.api.RemoveGitSource(v.ctx, v.project, v.environment, v.app())
	if err != nil && !client.HasCode(err, "not_found") {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return askRemoveGitSource(v, f)
	}
	return v.done(v.inApp("settings"), noticeGitRemoved)
}
