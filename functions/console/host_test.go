package console

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
)

func TestReservedHosts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.answer("GET /api/v1/session", 200, wire.Session{CSRFToken: testCSRF, User: wire.Caller{Username: "ada", Admin: true}})
	o.answer("GET /api/v1/host-reservations", 200, wire.List[wire.HostReservation]{Items: []wire.HostReservation{
		{Host: "www.example.com", App: "shop-prod.hello", Project: "shop", Until: time.Now().Add(time.Hour)},
	}})
	const release = "/console/hosts/www.example.com/release"
	if body := o.get("/console/hosts").Text(); !strings.Contains(body, "shop-prod.hello") || !strings.Contains(body, release) {
		t.Errorf("the page does not contain the host: %s", body)
	}
	if body := o.get(release).Text(); !strings.Contains(body, "Release the host www.example.com?") || len(o.changes()) != 0 {
		t.Errorf("confirmation: got %s, changes %v", body, o.changes())
	}
	const call = "DELETE /api/v1/host-reservations/www.example.com"
	o.answer(call, 204, nil)
	w := o.post(release, url.Values{"csrf": {testCSRF}})
	if changes := o.changes(); w.Status != 303 || len(changes) != 1 || !strings.HasPrefix(changes[0], call) {
		t.Errorf("got %d after %v", w.Status, changes)
	}
	o.answer("GET /api/v1/host-reservations", 200, wire.List[wire.HostReservation]{Items: []wire.HostReservation{}})
	if body := o.get("/console/hosts").Text(); !strings.Contains(body, "No host is reserved") {
		t.Errorf("got the page %s", body)
	}
}
