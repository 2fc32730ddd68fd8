package console

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("screenshots", "", "folder for the pictures of TestScreenshots (none if empty)")

// TestScreenshots writes pictures of every page for review, on desk, tablet and phone and in both
// themes.
// Run it with "make screenshots".
func TestScreenshots(t *testing.T) {
	if *pictures == "" {
		t.Skip("set -screenshots to write pictures")
	}
	must(t, os.MkdirAll(*pictures, 0o755))
	all := everyView(t)
	tablet := window{name: "tablet", width: 768, height: 1024}
	for _, w := range []window{phone, phone.night(), tablet, tablet.night(), desk, desk.night()} {
		v := browseAs(t, w, admin())
		for _, p := range all {
			p.comes(v)
			take := chromedp.FullScreenshot(100)
			if ask[string](v, "dialog") != "" { // a dialog covers the window, not the page
				take = chromedp.CaptureScreenshot()
			}
			picture, err := chromedp.Run(v.ctx, take)
			must(v.t, err)
			must(v.t, os.WriteFile(filepath.Join(*pictures, p.name+"-"+w.name+".png"), picture, 0o644))
		}
	}
}
