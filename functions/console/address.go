package console

import (
	"strconv"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/wire"
)

func addressOf(a wire.App) view.Fields {
	return view.Fields{"host": a.Host, "port": strconv.Itoa(a.Port)}
}

func askAddress(r *request, f view.Form) error {
	a, err := r.readApp()
	if err != nil {
		return err
	}
	if f.Err == nil {
		f = addressOf(a).Form()
	}
	return r.ask(tabApps, view.FormPage{
		Title: "Address of " + a.Name, Action: r.inApp("settings", "address"), Button: "Save", Back: r.inApp("settings"), Form: f,
		Inputs: []view.Input{
			f.Text("host", "Host", "After a change, the app no longer serves its previous host. Update all clients; otherwise they keep sending their keys there.").Require(),
			f.Text("port", "Port", "The port that the app's container listens on. A new port restarts the pods; requests fail until one of them is ready.").Integer(1, 65535).Require(),
		},
	})
}

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
			port = 0 // the API rejects it
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
