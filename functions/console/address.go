package console

import (
	"strconv"

	"github.com/sluicegate/sluice/shared/wire"
)

// addressOf returns the fields of the form for an app's host and port.
func addressOf(a wire.App) values { return values{"host": a.Host, "port": strconv.Itoa(a.Port)} }

func askAddress(r *request, f form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if f.Refusal == nil {
		f = addressOf(a).form()
	}
	return r.ask(tabApps, formPage{
		Title: "Address of " + a.Name, Action: r.inApp("settings", "address"), Button: "Save", Back: r.inApp("settings"), Form: f,
		Inputs: []input{
			f.Text("host", "Host", "The app stops serving on its former host. Clients that send their keys there must change.").Need(),
			f.Text("port", "Port", "The port that the app's container listens on. A new port restarts the pods; requests fail until one of them is ready.").Whole(1, 65535).Need(),
		},
	})
}

// setAddress changes the app's host and port, as the form says.
func setAddress(r *request) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	current := addressOf(a)
	typed := r.typed(current)
	changed, conflict := r.changes(current, typed)
	if conflict != nil {
		return askAddress(r, *conflict)
	}
	var update wire.UpdateApp
	if changed["host"] {
		update.Host = new(typed["host"])
	}
	if changed["port"] {
		port, err := strconv.Atoi(typed["port"])
		if err != nil {
			port = 0 // the API refuses it
		}
		update.Port = &port
	}
	if len(changed) > 0 {
		if _, err := r.api.UpdateApp(r.Context(), r.project, r.environment, r.app(), update); err != nil {
			return r.again(err, askAddress)
		}
	}
	return r.done(r.inApp("settings"), changed.notice(noticeAddressSet))
}
