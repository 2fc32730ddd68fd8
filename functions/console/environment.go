package console

func (m routes) environments() {
	m.page("/projects/{project}/new-environment", func(v *visit) error { return newEnvironment(v, form{}) })
	m.change("/projects/{project}/environments", createEnvironment)
	m.page("/projects/{project}/environments/{environment}", func(v *visit) error { return v.goTo(v.inEnvironment("apps")) })
	m.page("/projects/{project}/environments/{environment}/delete", func(v *visit) error { return askDeleteEnvironment(v, form{}) })
	m.change("/projects/{project}/environments/{environment}/delete", deleteEnvironment)
}

func newEnvironment(v *visit, f form) error {
	return v.ask(tabEnvironments, simple{
		Title: "New environment", Action: v.inProject("environments"), Button: "Create environment", Back: v.inProject(), Form: f,
		Lead:   "Apps, plans and API keys live in an environment; its namespace is the project's and its own name with a hyphen between.",
		Inputs: []input{f.Text("name", "Name", labelHint).Need().Like("prod")},
	})
}

func createEnvironment(v *visit) error {
	e, err := v.api.CreateEnvironment(v.ctx, v.project, v.typed("name"))
	if err != nil {
		f, ok := v.refused(err, nameFields())
		if !ok {
			return err
		}
		return newEnvironment(v, f)
	}
	return v.done(at("projects", v.project, "environments", e.Name, "apps"), noticeEnvironmentCreated)
}

func askDeleteEnvironment(v *visit, f form) error {
	return v.confirm("", confirmation{
		Title: "Delete the environment " + v.environment + " of " + v.project + "?",
		Lead:  "This cannot be undone. An environment that still has apps, plans or keys is not deleted.",
		Type:  v.environment, Danger: true, Form: f,
		Action: v.inEnvironment("delete"), Button: "Delete the environment", Back: v.inProject(),
	})
}

func deleteEnvironment(v *visit) error {
	if !v.retyped(v.environment) {
		return askDeleteEnvironment(v, v.sent("name", wrongName))
	}
	if err := v.api.DeleteEnvironment(v.ctx, v.project, v.environment); err != nil {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return askDeleteEnvironment(v, f)
	}
	return v.done(v.inProject(), noticeEnvironmentDeleted)
}
