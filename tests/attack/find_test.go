package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
)

func TestForeignSearch(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "searches for another project's keys, plans and apps, and for unissued, truncated and mixed keys",
		"404, 400 or an empty list, as for unknown values; no full key in a response")
	own, other := newProject(t), newProject(t)
	viewer := own.signIn(t, own.roles[2])
	mine := own.site.AnyKey(func(k *wire.CreateKey) { k.Name = "Mine" })
	theirs := other.site.AnyKey(func(k *wire.CreateKey) { k.Name = "Theirs of nobody else" })
	find := own.fill("/api/v1/projects/{project}/api-keys/find")
	never := own.site.AnyKey()
	own.site.Rotate(never, 0) // invalidates its first secret
	tried := 0
	for text, status := range map[string]int{
		mine.Full: http.StatusOK, never.Full: http.StatusOK, theirs.Full: http.StatusNotFound,
		theirs.Full[:len(theirs.Full)-1]: http.StatusBadRequest, theirs.Prefix: http.StatusBadRequest,
		mine.Full[:16] + theirs.Full[16:]: http.StatusBadRequest, theirs.Full + " ": http.StatusBadRequest, "": http.StatusBadRequest,
		"sluice_../../x_" + theirs.Full[16:]: http.StatusBadRequest, strings.Repeat("A", 60_000): http.StatusBadRequest,
	} {
		a := call(t, request{method: http.MethodPost, path: find, body: fmt.Sprintf(`{"key":%q}`, text), token: viewer})
		if tried++; a.Status != status || strings.Contains(a.Body, theirs.Prefix) || text != "" && strings.Contains(a.Body, text) {
			t.Errorf("%.20s: got %d %s, want %d", text, a.Status, a.Body, status)
		}
	}
	there := call(t, request{method: http.MethodPost, path: other.fill("/api/v1/projects/{project}/api-keys/find"), body: fmt.Sprintf(`{"key":%q}`, theirs.Full), token: viewer})
	nowhere := call(t, request{method: http.MethodPost, path: "/api/v1/projects/none-of-that-name/api-keys/find", body: fmt.Sprintf(`{"key":%q}`, theirs.Full), token: viewer})
	if there.Status != http.StatusForbidden || there.Body != nowhere.Body {
		t.Errorf("another project: got %d %s, want %s as for an unknown project", there.Status, there.Body, nowhere.Body)
	}
	tried += 2
	for _, query := range []string{
		"search=Theirs", "search=" + theirs.Prefix, "search=key-" + theirs.Prefix, "search=%27%20OR%201%3D1", "app=" + strings.Repeat("x", 300), "sort=last_seen&search=Theirs",
		"status=active&environment=" + other.site.Env + "&search=Theirs", "plan=" + theirs.Plan + "&sort=last_seen&search=Theirs",
	} {
		a := call(t, request{path: own.fill("/api/v1/projects/{project}/api-keys?") + query, token: viewer})
		if tried++; a.Status >= http.StatusInternalServerError || strings.Contains(a.Body, theirs.Prefix) {
			t.Errorf("%s: got %d %s", query, a.Status, a.Body)
		}
	}
	row.Measured(fmt.Sprintf("%d calls", tried))
}
