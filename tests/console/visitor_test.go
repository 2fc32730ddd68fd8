package console

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/tests/long"
)

//go:embed testdata/look.js
var look string

// patience is the time for which a visitor waits for a text or element.
const patience = 60 * time.Second

// window is a browser window with its settings.
type window struct {
	name          string
	width, height int64
	dark          bool
	noScript      bool
}

var (
	desk  = window{name: "desk", width: 1280, height: 900}
	phone = window{name: "phone", width: 390, height: 844}
)

// plain returns the window with JavaScript disabled; night returns it with the dark theme.
func (w window) plain() window { w.noScript, w.name = true, w.name+"-plain"; return w }
func (w window) night() window { w.dark, w.name = true, w.name+"-night"; return w }

var usual = []window{desk, phone.plain()}

// visitor is a user with a separate browser context.
type visitor struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // chromedp keeps the window in it
	window window

	mu    sync.Mutex
	wrong []string // errors in the console of the browser
}

// browse opens a window. Errors that the browser reports fail the test.
func browse(t *testing.T, w window) *visitor {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	v := &visitor{t: t, ctx: ctx, window: w}
	t.Cleanup(func() {
		if t.Failed() {
			v.keep("failed-" + t.Name())
		}
		cancel()
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, s := range v.wrong {
			t.Errorf("error in the browser: %s", s)
		}
	})
	must(v.t, chromedp.Do(ctx, chromedp.EmulateViewport(w.width, w.height)))
	must(v.t, chromedp.Listen(ctx, v.onEvent))
	// Without it, only the window in front has the focus.
	_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	must(v.t, err)
	v.scheme(w.dark)
	v.allows("clipboard-write") // denied by default in the headless shell
	if w.noScript {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		must(v.t, err)
	}
	return v
}

func browseAs(t *testing.T, w window, p person) *visitor {
	t.Helper()
	v := browse(t, w)
	v.signsIn(p)
	return v
}

func adminIn(t *testing.T, w window) (site, *visitor) {
	t.Helper()
	return newSite(t), browseAs(t, w, admin())
}

func inEach(t *testing.T, windows []window, test func(v *visitor)) {
	t.Helper()
	for _, w := range windows {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			test(browse(t, w))
		})
	}
}

func adminInEach(t *testing.T, windows []window, test func(s site, v *visitor)) {
	t.Helper()
	inEach(t, windows, func(v *visitor) {
		v.signsIn(admin())
		test(newSite(v.t), v)
	})
}

func (v *visitor) onEvent(event any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			v.wrong = append(v.wrong, e.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		v.wrong = append(v.wrong, "JavaScript dialog: "+e.Message)
	case *runtime.EventExceptionThrown:
		v.wrong = append(v.wrong, e.ExceptionDetails.Text)
	}
}

func (v *visitor) opens(path string) *visitor {
	v.t.Helper()
	return v.leaves(func() { must(v.t, chromedp.Do(v.ctx, chromedp.Navigate(world.Info().BaseURL+path))) })
}

// sessions holds shared session tokens by username.
var sessions sync.Map

// signsIn sets the cookie of a shared session. Tests that end the session or test the sign-in page
// must use signsInByForm.
func (v *visitor) signsIn(p person) {
	v.t.Helper()
	token, ok := sessions.Load(p.username)
	if !ok {
		opened, err := client.New(world.Info().BaseURL).SignIn(v.t.Context(), p.username, p.password)
		must(v.t, err)
		token, _ = sessions.LoadOrStore(p.username, string(opened.Token))
	}
	_, err := chromedp.Call(v.ctx, network.SetCookie, network.SetCookieParams{
		Name: identity.CookieName, Value: token.(string), URL: world.Info().BaseURL,
		Path: "/", Secure: new(true), HTTPOnly: new(true), SameSite: network.CookieSameSiteLax,
	})
	must(v.t, err)
}

func (v *visitor) signsInByForm(p person) {
	v.t.Helper()
	v.opens("/console/sign-in").signsInHere(p).sees("Projects")
}

func (v *visitor) signsInHere(p person) *visitor {
	v.t.Helper()
	return v.submits("Sign in", "Username", p.username, "Password", p.password)
}

// clicks clicks links or buttons by their texts. After each it waits for a new page, or until a
// dialog opens or closes.
func (v *visitor) clicks(texts ...string) *visitor {
	v.t.Helper()
	for _, text := range texts {
		v.leaves(func() { v.presses(text) })
	}
	return v
}

// submits fills in fields, given as in types, and clicks a button.
func (v *visitor) submits(button string, pairs ...string) *visitor {
	v.t.Helper()
	v.types(pairs...)
	return v.clicks(button)
}

// presses clicks a link, button or menu by its text, and does not wait for another page.
func (v *visitor) presses(text string) *visitor {
	v.t.Helper()
	v.clickAt(v.find("link or button", "clickable", text))
	return v
}

func (v *visitor) unfolds(selector string) *visitor {
	v.t.Helper()
	v.clickAt(v.find("details", "first", selector+" > summary"))
	return v
}

// types replaces the values of fields, given as pairs of label and value.
func (v *visitor) types(pairs ...string) {
	v.t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		v.clickAt(v.find("field", "control", pair[0]))
		v.tell("emptied", pair[0])
		if pair[1] != "" {
			_, err := chromedp.Call(v.ctx, input.InsertText, input.InsertTextParams{Text: pair[1]})
			must(v.t, err)
		}
	}
}

// unchecked disables the validation of the browser, so that the validation of the console is
// tested.
func (v *visitor) unchecked() {
	v.t.Helper()
	v.tell("unchecked")
}

func (v *visitor) chooses(label, option string) {
	v.t.Helper()
	v.find("field", "control", label)
	if !v.tell("chosen", label, option) {
		v.t.Fatalf("%s has no option %q", label, option)
	}
}

// sets sets the value of a field that is not a text field, such as a date.
func (v *visitor) sets(label, value string) {
	v.t.Helper()
	v.find("field", "control", label)
	v.tell("set", label, value)
}

func (v *visitor) ticks(label string) {
	v.t.Helper()
	v.clickAt(v.find("box", "control", label))
}

// sees waits until the page shows each of the texts.
func (v *visitor) sees(texts ...string) *visitor {
	v.t.Helper()
	for _, text := range texts {
		v.until(fmt.Sprintf("see %q", text), func() bool { return strings.Contains(v.text(), text) })
	}
	return v
}

// seesNo waits until the page does not show a text.
func (v *visitor) seesNo(text string) {
	v.t.Helper()
	v.until(fmt.Sprintf("stop showing %q", text), func() bool { return !strings.Contains(v.text(), text) })
}

func (v *visitor) offers(text string) bool {
	v.t.Helper()
	return v.place("clickable", text) != nil
}

func (v *visitor) offersNone(texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		if v.offers(text) {
			v.t.Errorf("%s contains the link or button %q", v.path(), text)
		}
	}
}

func (v *visitor) isAt(path string) {
	v.t.Helper()
	if got := v.path(); got != path {
		v.t.Errorf("page: got %s, want %s", got, path)
	}
}

func (v *visitor) text() string { return ask[string](v, "shown") }

func (v *visitor) textOf(selector string) string { return ask[string](v, "textOf", selector) }

// clip returns the text in the clipboard, which all windows share.
func (v *visitor) clip() string {
	v.t.Helper()
	v.allows("clipboard-read")
	return evaluate[string](v, "navigator.clipboard.readText()", chromedp.EvalAwaitPromise)
}

func (v *visitor) allows(permission string) {
	v.t.Helper()
	_, err := chromedp.CallBrowser(v.ctx, browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: permission}, Setting: browser.PermissionSettingGranted,
		BrowserContextID: chromedp.FromContext(v.ctx).BrowserContextID,
	})
	must(v.t, err)
}

// source returns the current HTML, including hidden elements.
func (v *visitor) source() string { return ask[string](v, "source") }

func (v *visitor) path() string { return ask[string](v, "path") }

func (v *visitor) fits() {
	v.t.Helper()
	if wide := ask[int64](v, "width"); wide > v.window.width {
		v.t.Errorf("%s: got a width of %d in a window of %d", v.path(), wide, v.window.width)
	}
}

// shot checks that the page fits the window. "make test-long" also writes a picture.
func (v *visitor) shot(name string) {
	v.t.Helper()
	v.fits()
	if long.Enabled() {
		v.keep(name)
	}
}

func (v *visitor) keep(name string) {
	picture, err := chromedp.Run(v.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		v.t.Logf("take picture failed: %v", err)
		return
	}
	file := strings.NewReplacer("/", "-", " ", "-").Replace(name) + "-" + v.window.name + ".png"
	must(v.t, os.WriteFile(filepath.Join(screenshots, file), picture, 0o644))
}

// leaves calls do and waits for a new page, or until a dialog opens or closes.
func (v *visitor) leaves(do func()) *visitor {
	v.t.Helper()
	v.tell("mark")
	do()
	v.until("load another page", func() bool { return ask[bool](v, "arrived") })
	return v
}

type place struct{ X, Y float64 }

// find waits for an element and returns its position.
func (v *visitor) find(what, how string, args ...string) place {
	v.t.Helper()
	var p *place
	v.until(fmt.Sprintf("find the %s %q", what, args), func() bool {
		p = v.place(how, args...)
		return p != nil
	})
	return *p
}

func (v *visitor) place(how string, args ...string) *place { return ask[*place](v, how, args...) }

func (v *visitor) clickAt(p place) {
	v.t.Helper()
	must(v.t, chromedp.Do(v.ctx, chromedp.MouseClickXY(p.X, p.Y)))
}

func (v *visitor) tell(what string, args ...string) bool {
	v.t.Helper()
	return ask[bool](v, what, args...)
}

// ask calls a function of look.js in the page. While a page loads, it returns the zero value.
func ask[T any](v *visitor, what string, args ...string) T {
	v.t.Helper()
	list, err := json.Marshal(append([]string{}, args...))
	must(v.t, err)
	answer, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](fmt.Sprintf("(%s)[%q](...%s)", look, what, list)))
	if err != nil {
		v.t.Logf("call %s failed: %v", what, err)
	}
	return answer
}

func evaluate[T any](v *visitor, script string, options ...chromedp.EvaluateOption) T {
	v.t.Helper()
	result, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](script, options...))
	must(v.t, err)
	return result
}

func (v *visitor) until(what string, holds func() bool) {
	v.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		if holds() {
			return
		}
		if time.Since(begin) > patience {
			v.t.Fatalf("did not %s on %s within %s; the page shows:\n%s", what, v.path(), patience, v.text())
		}
	}
}
