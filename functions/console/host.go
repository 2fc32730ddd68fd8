package console

import "github.com/sluicegate/sluice/functions/console/internal/view"

func listReservations(r *request) error {
	return showList(r, "hosts", page{Title: "Reserved hosts"}, r.api.HostReservationsPage)
}

func askReleaseHost(r *request, f view.Form) error {
	host := r.PathValue("host")
	return r.confirm("", view.Confirmation{
		Title:  "Release the host " + host + "?",
		Lead:   "Any project can then use this host. Clients of the previous app may still send their API keys to it.",
		Danger: true, Form: f,
		Action: at("hosts", host, "release"), Button: "Release host", Back: at("hosts"),
	})
}

func releaseHost(r *request) error {
	if err := r.api.ReleaseHost(r.Context(), r.PathValue("host")); err != nil {
		return r.again(err, askReleaseHost)
	}
	return r.done(at("hosts"), noticeHostReleased)
}
