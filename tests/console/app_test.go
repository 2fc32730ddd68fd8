package console

import (
	"strings"
	"sync"
	"testing"
)

func TestCreateApp(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		v.opens(s.page("apps")).sees("No apps")
		v.clicks("Create app")
		v.submits("Create app", "Name", "hello", "Image", "no tag").sees("image must be a full image reference with a tag or a digest.")
		v.shot("new-app-refused")
		v.submits("Create app", "Image", "registry.example/echo:v1").sees("App created.", "registry.example/echo:v1")
		v.shot("app")
		v.clicks("Apps", "Create app", "From git")
		v.submits("Create app", "Name", "built", "Repository", "https://user:secret@example.com/x.git", "Branch", "main")
		v.sees("without a password.")
		v.submits("Create app", "Repository", "https://example.com/x.git").sees("App created.")
		v.clicks("Builds")
		v.until("see the first build succeed", func() bool {
			v.reloads() // without JavaScript, the page does not refresh itself
			return strings.Contains(v.text(), "Succeeded")
		})
		v.clicks("Apps").sees("-prod/built")
		v.shot("apps")
		v.clicks("built", "Settings", "Delete app")
		v.submits("Delete app", "Type built to confirm", "built").sees("App deleted.")
		s.OnlyHas(0, 0, 1)
	})
}

func TestRequireAPIKey(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		s.App("hello")
		v.opens(s.page("apps", "hello")).sees("No API key required")
		v.clicks("Require API key").sees("Turn on Require API key for hello?", "No key can access hello, so all requests will be denied.")
		v.shot("gate-on")
		v.clicks("Turn on").sees("Require API key is on.")
		s.WaitGate("hello", "engaged")
		if v.window.noScript {
			v.opens(v.path())
		}
		v.sees("API key required Verified")
		v.seesNo("The gate is not in place yet.")
		v.shot("app-engaged")
		s.Call("hello").Gets(401, "invalid_key")

		v.clicks("Require API key").sees("Turn off Require API key for hello?")
		v.shot("gate-off")
		v.clicks("Cancel", "Require API key", "Turn off").sees("Require API key is off.")
		s.WaitGate("hello", "ungated")
		if v.window.noScript {
			v.opens(v.path())
		}
		v.sees("No API key required")
	})
}

// TestPendingGate stops wiring, so it must not run in parallel with other tests.
func TestPendingGate(t *testing.T) {
	s, v := adminIn(t, desk)
	s.App("hello")
	v.opens(s.page("apps", "hello"))
	must(t, world.Kill("wiring"))
	restart := sync.OnceFunc(func() {
		if err := world.Restart(t.Context(), "wiring"); err != nil {
			t.Error(err)
		}
	})
	defer restart()
	v.clicks("Require API key", "Turn on").sees("The gate is not in place yet.", "Gate pending")
	v.shot("app-pending")
	v.clicks("Overview") // of the environment
	v.sees("hello Gate pending")
	v.clicks("hello")
	restart()
	v.seesNo("The gate is not in place yet.")
	v.sees("API key required Verified")
	s.Call("hello").Gets(401, "invalid_key")
}
