package console

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/tests/long"
)

//go:embed testdata/layout.js
var layout string

// widths returns the widths of phones, tablets and desks, and those at which the layout changes.
func widths() []int64 {
	return long.Pick([]int64{390, 705, 1440}, []int64{390, 600, 705, 768, 860, 1024, 1440})
}

// TestLayout checks every page at every width. It uses only the light theme: the themes differ only
// in colors (TestThemesDifferInColors), which TestPagesAreAccessible checks.
func TestLayout(t *testing.T) {
	t.Parallel()
	pages := everyView(t)
	t.Logf("%d pages", len(pages))
	v := browse(t, desk)
	v.opens("/console/sign-in")
	v.laidOut("sign-in")
	v.signsIn(admin())
	for _, p := range pages {
		p.comes(v)
		v.laidOut(p.name)
	}
}

// laidOut checks the current page at every width.
func (v *visitor) laidOut(name string) {
	v.t.Helper()
	found := map[string][]string{}
	for _, width := range widths() {
		must(v.t, chromedp.Do(v.ctx, chromedp.EmulateViewport(width, v.window.height)))
		for _, fault := range evaluate[[]string](v, layout) {
			found[fault] = append(found[fault], fmt.Sprint(width))
		}
	}
	must(v.t, chromedp.Do(v.ctx, chromedp.EmulateViewport(v.window.width, v.window.height)))
	for fault, at := range found {
		v.t.Errorf("%s at %s: %s", name, strings.Join(at, ", "), fault)
	}
}
