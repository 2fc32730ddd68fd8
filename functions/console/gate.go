package console

import (
	"context"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/app"
)

func (r *request) pageWithGate() string {
	if r.FormValue("page") == "settings" {
		return r.inApp("settings")
	}
	return r.inApp()
}

// askGate asks before Require API key is turned on or off.
func askGate(r *request, f view.Form) error {
	if r.FormValue("require") == "on" {
		return askRequireKey(r, f)
	}
	return askReleaseGate(r, f)
}

// forecastPatience is the time for which the confirmation waits for the forecast. It is shorter than
// the time for which the dialog waits for the confirmation.
const forecastPatience = 3 * time.Second

func askRequireKey(r *request, f view.Form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if a.RequireAPIKey {
		return r.done(r.pageWithGate(), noticeNothingChanged)
	}
	c := view.Confirmation{
		Title: "Turn on Require API key for " + a.Name + "?", Form: f,
		Hidden: []view.HiddenInput{{Name: "require", Value: "on"}, {Name: "page", Value: r.FormValue("page")}},
		Action: r.inApp("gate"), Button: "Turn on", Back: r.pageWithGate(),
	}
	ctx, cancel := context.WithTimeout(r.Context(), forecastPatience)
	defer cancel()
	forecast, err := r.api.ForecastGate(ctx, r.project, r.environment, a.Name)
	if err == nil {
		c.Points, c.Danger = forecast.Lines(a.Name), forecast.Keys.Usable == 0
		return r.confirm(tabApps, c)
	}
	failed, ok := r.refused(err)
	if !ok {
		return err
	}
	reason := "The management API did not respond."
	if failed.Err.Code != "" {
		reason = failed.Err.Message
	}
	c.Points = []string{"Requests without a valid key will be denied.", "The number of keys that can access the app is unknown: " + reason}
	return r.confirm(tabApps, c)
}

func askReleaseGate(r *request, f view.Form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if !a.RequireAPIKey {
		return r.done(r.pageWithGate(), noticeNothingChanged)
	}
	return r.confirm(tabApps, view.Confirmation{
		Title: "Turn off Require API key for " + a.Name + "?",
		Lead:  "Anyone who knows " + a.URL + " can then call the app without a key.",
		Points: []string{
			"Rates and quotas no longer apply to the app, and its requests are not counted.",
			"Plans and keys do not change. Turn on Require API key again to restore the gate.",
		},
		Hidden: []view.HiddenInput{{Name: "require", Value: "off"}, {Name: "page", Value: r.FormValue("page")}},
		Danger: true, Form: f,
		Action: r.inApp("gate"), Button: "Turn off", Back: r.pageWithGate(),
	})
}

func switchGate(r *request) error {
	on := r.PostForm.Get("require") == "on"
	a, err := r.readApp()
	if err == nil && a.RequireAPIKey == on {
		return r.done(r.pageWithGate(), noticeNothingChanged)
	}
	if err == nil {
		_, err = r.api.RequireAPIKey(r.Context(), r.project, r.environment, r.app(), on)
	}
	switch {
	case isNotFound(err):
		return err
	case err != nil:
		return r.again(err, askGate)
	case on:
		return r.done(r.pageWithGate(), noticeGateOn)
	}
	return r.done(r.pageWithGate(), noticeGateOff)
}

func preflightHandlings() []view.Option {
	return []view.Option{
		{Value: string(app.PreflightApp), Label: "Pass them to the app, without credentials"},
		{Value: string(app.PreflightRefuse), Label: "Deny them, so that pages of other origins cannot call the app"},
	}
}

func askPreflight(r *request, f view.Form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if f.Err == nil {
		f = view.Fields{"preflight": a.Preflight}.Form()
	}
	return r.ask(tabApps, view.FormPage{
		Title: "CORS preflights to " + a.Name, Action: r.inApp("settings", "preflight"), Button: "Save", Back: r.inApp("settings"), Form: f,
		Inputs: []view.Input{f.Select("preflight", "Preflights without a key", "Browsers send an OPTIONS request without a key before some requests to another origin. "+
			"The setting applies while Require API key is on.", preflightHandlings()).Require()},
	})
}

func setPreflight(r *request) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	current := view.Fields{"preflight": a.Preflight}
	typed := r.typed(current)
	changed, conflict := r.changes(current, typed)
	if conflict != nil {
		return askPreflight(r, *conflict)
	}
	if len(changed) > 0 {
		if _, err := r.api.SetPreflight(r.Context(), r.project, r.environment, r.app(), typed["preflight"]); err != nil {
			return r.again(err, askPreflight)
		}
	}
	return r.done(r.inApp("settings"), changed.notice(noticePreflightSet))
}
