package console

import (
	"cmp"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/wire"
)

// askReportLeak shows the form for a leaked key or service token. No page shows the entered key
// again.
func askReportLeak(r *request, f view.Form) error {
	return r.ask(tabKeys, view.FormPage{
		Title: "Leak report", Action: r.inProject("api-keys", "report-leak"), Button: "Report leak", Back: r.inProject("api-keys"), Form: f,
		Lead: "Report an API key or a service token, of any project, that is publicly readable. If it is valid, it stops working, " +
			"and its project can see who reported it. The response does not show whether it exists.",
		Inputs: []view.Input{
			f.Text("key", "Full key or service token", "Paste the key as you found it. Other text around it is ignored.").Require().WithType("password").Autocomplete("off"),
			f.Text("url", "Location", "A URL or a description. The project can see it.").Placeholder("https://git.example.com/shop/hello/blob/main/deploy.sh"),
		},
	})
}

func reportLeak(r *request) error {
	full, ok := fullKeyIn(r.PostForm.Get("key"))
	where := strings.TrimSpace(r.PostForm.Get("url"))
	r.PostForm.Set("key", "")
	if !ok {
		return askReportLeak(r, r.invalid("key", "This is not a full key or service token."))
	}
	if _, err := r.api.ReportLeak(r.Context(), full, where); err != nil {
		return r.again(err, askReportLeak)
	}
	return r.done(r.inProject("api-keys"), noticeLeakReported)
}

func leakPolicies() []view.Option {
	return []view.Option{
		{Value: string(apikey.LeakDisable), Label: "Disable the key (you can enable it again)"},
		{Value: string(apikey.LeakRevoke), Label: "Revoke the key permanently"},
	}
}

func askProjectSettings(r *request, f view.Form) error {
	p, err := r.api.Project(r.Context(), r.project)
	if err != nil {
		return err
	}
	if f.Err == nil {
		f = settingsOf(p).Form()
	}
	return r.ask(tabEnvironments, view.FormPage{
		Title: "Settings of " + r.project, Action: r.inProject("settings"), Button: "Save", Back: r.inProject(), Form: f,
		Inputs: []view.Input{
			f.Select("leak_policy", "Action for leaked keys", "Applies when a leak of a key's current secret is reported. "+
				"A leaked previous secret becomes invalid immediately, and the key does not change.", leakPolicies()).Require(),
			f.Text("registries", "Image registries", "Registries from which images are allowed, separated by commas. If empty, all registries are allowed.").
				Placeholder("registry.example.com/shop, ghcr.io"),
		},
	})
}

func settingsOf(p wire.Project) view.Fields {
	return view.Fields{"leak_policy": p.LeakPolicy, "registries": strings.Join(p.Registries, ", ")}
}

func setProjectSettings(r *request) error {
	p, err := r.api.Project(r.Context(), r.project)
	if err != nil {
		return err
	}
	current := settingsOf(p)
	changed, conflict := r.changes(current, r.typed(current))
	if conflict != nil {
		return askProjectSettings(r, *conflict)
	}
	if len(changed) > 0 {
		var in wire.UpdateProject
		if changed["leak_policy"] {
			in.LeakPolicy = wire.Some(cmp.Or(r.PostForm.Get("leak_policy"), "none"))
		}
		if changed["registries"] {
			in.Registries = wire.Some(strings.FieldsFunc(r.PostForm.Get("registries"), func(c rune) bool { return c == ',' || c == ' ' }))
		}
		if _, err := r.api.UpdateProject(r.Context(), r.project, in); err != nil {
			return r.again(err, askProjectSettings)
		}
	}
	return r.done(r.inProject(), changed.notice(noticeProjectChanged))
}
