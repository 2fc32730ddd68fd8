package console

// askReleaseGate asks before Require API key is switched off: it lets everybody in.
func askReleaseGate(r *request, f form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if !a.RequireAPIKey {
		return r.done(r.inApp(), noticeNothingChanged)
	}
	return r.confirm(tabApps, confirmation{
		Title: "Switch Require API key off for " + a.Name + "?",
		Lead:  "Anybody who knows " + a.URL + " can call the app then, without a key.",
		Points: []string{
			"No plan's rate or quota holds for it any more, and its requests are not counted.",
			"Plans and keys stay as they are. Switching it on again puts the gate back.",
		},
		Original: []original{{"require", "off"}},
		Danger:   true, Form: f,
		Action: r.inApp("gate"), Button: "Switch it off", Back: r.inApp(),
	})
}

// switchGate sets Require API key to what the form says.
func switchGate(r *request) error {
	on := r.PostForm.Get("require") == "on"
	a, err := r.readApp()
	if err == nil && a.RequireAPIKey == on {
		return r.done(r.inApp(), noticeNothingChanged)
	}
	if err == nil {
		_, err = r.api.RequireAPIKey(r.Context(), r.project, r.environment, r.app(), on)
	}
	switch {
	case gone(err):
		return err
	case err != nil && !on:
		return r.again(err, nil, askReleaseGate)
	case err != nil:
		return r.again(err, nil, showAppWith)
	case on:
		return r.done(r.inApp(), noticeGateOn)
	}
	return r.done(r.inApp(), noticeGateOff)
}
