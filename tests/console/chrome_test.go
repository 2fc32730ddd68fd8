package console

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/chromedp"
)

// chrome is the browser's process.
type chrome struct {
	ctx  context.Context //nolint:containedctx // chromedp keeps the browser in it
	stop context.CancelFunc
}

// startChrome prepares the browser, whose files are in a temporary folder that goes
// with it.
func startChrome(program string) (chrome, error) {
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program),
		chromedp.WSURLReadTimeout(time.Minute), // a cold start on a busy machine
		chromedp.Headless,
		chromedp.NoSandbox, // the tests may run as root
		chromedp.DisableGPU,
		chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-extensions", true),
		chromedp.Flag("disable-dev-shm-usage", true), // containers have little of it
		chromedp.Flag("disable-features", "Translate,OptimizationHints,MediaRouter"),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("lang", "en-US"),
	}
	alloc, stopAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(alloc)
	c := chrome{ctx: ctx, stop: func() {
		stop()
		stopAlloc()
	}}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		c.stop()
		return chrome{}, fmt.Errorf("start Chromium: %w", err)
	}
	return c, nil
}
