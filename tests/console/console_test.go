// Package console tests the console in a browser, with a separate stack. The tests find elements
// by their texts, and run in desk and phone windows, with and without JavaScript. They need
// Chromium or its headless shell.
//
//	s, v := adminIn(t, desk)
//	v.opens(s.page("apps")).sees("No apps")
//	v.clicks("Create app")
//	v.submits("Create app", "Name", "hello", "Image", stacktest.Image).sees("App created.")
//
// A failed test writes a picture of its page to .local/screenshots. "make test-long" writes more
// pictures, and "make screenshots" writes one of every page.
package console

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const portBase = 26180

const screenshots = "../../.local/screenshots"

var (
	world    *stack.Stack
	chromium chrome
)

func TestMain(m *testing.M) {
	code := stacktest.Main(m, func(_ string, o *stack.Options) error {
		program, err := findChromium()
		if err != nil {
			return err
		}
		if err := os.MkdirAll(screenshots, 0o755); err != nil {
			return err
		}
		if chromium, err = startChrome(program); err != nil {
			return err
		}
		o.PortBase = portBase
		o.Race = long.Enabled()
		o.Env = map[string]map[string]string{"deploys": {"PROGRESS_DEADLINE": "15s"}}
		return nil
	}, func(s *stack.Stack) { world = s })
	if chromium.stop != nil {
		chromium.stop()
	}
	os.Exit(code)
}

// findChromium returns the path of the browser.
func findChromium() (string, error) {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("Chromium not found: apt-get install chromium-headless-shell, or set CHROMIUM")
}

type person struct{ username, password string }

func admin() person {
	a := world.Info().Admin
	return person{a.Username, a.Password}
}

// site is a project for one test.
type site struct{ *stacktest.Site }

func newSite(t *testing.T) site {
	t.Helper()
	return site{stacktest.New(t, world)}
}

// page returns the path of a page in the site's environment: s.page("apps", "hello").
func (s site) page(path ...string) string {
	p := fmt.Sprintf("/console/projects/%s/environments/%s", s.Project, s.Env)
	for _, segment := range path {
		p += "/" + segment
	}
	return p
}

// member creates a user with a role in the site's project.
func (s site) member(role string) person {
	s.T.Helper()
	p := person{"mwmwm" + strings.ToLower(rand.Text()[:6]), "a long enough password"}
	_, err := s.Client.CreateUser(s.T.Context(), p.username, p.password, false)
	must(s.T, err)
	members, err := client.Collect(s.Client.Members(s.T.Context(), s.Project))
	must(s.T, err)
	must(s.T, s.Client.SetMembers(s.T.Context(), s.Project, append(members, wire.Member{Username: p.username, Role: role})))
	return p
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
