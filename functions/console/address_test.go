package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/wire"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	const (
		call = "/api/v1/projects/shop/environments/prod/apps/hello"
		path = "/console/projects/shop/environments/prod/apps/hello/settings/address"
	)
	o := newOffice(t)
	hello := wire.App{Name: "hello", Project: "shop", Environment: "prod", Host: "a.example.com", Port: 8080}
	o.answer("GET "+call, 200, hello)
	o.answer("PATCH "+call, 200, hello)
	if body := o.get(path).Text(); !strings.Contains(body, `value="a.example.com"`) || !strings.Contains(body, `value="8080"`) {
		t.Errorf("form: got %s", body)
	}
	for _, tt := range []struct {
		was, host, port string
		status          int
		want            []string // changes
	}{
		{was: "a.example.com", host: "a.example.com", port: "8080", status: http.StatusSeeOther},
		{was: "b.example.com", host: "c.example.com", port: "8080", status: http.StatusConflict},
		{was: "a.example.com", host: "c.example.com", port: "3000", status: http.StatusSeeOther, want: []string{"PATCH " + call + ` {"host":"c.example.com","port":3000}`}},
	} {
		w := o.post(path, url.Values{"host": {tt.host}, "was_host": {tt.was}, "port": {tt.port}, "was_port": {"8080"}})
		if diff := cmp.Diff(tt.want, o.changes()); diff != "" || w.Status != tt.status {
			t.Errorf("to %s: status: got %d, want %d; calls (-want +got):\n%s", tt.host, w.Status, tt.status, diff)
		}
	}
	o.refuse("PATCH "+call, 409, "host_taken")
	w := o.post(path, url.Values{"host": {"c.example.com"}, "was_host": {"a.example.com"}, "port": {"8080"}, "was_port": {"8080"}})
	w.Shows(409, "host_taken")
}
