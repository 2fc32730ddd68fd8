package console

import (
	"context"
	"fmt"
	"time"

	"github.com/chromedp/chromedp"
)

type chrome struct {
	ctx  context.Context //nolint:containedctx // chromedp keeps the browser in it
	stop context.CancelFunc
}

// startChrome starts the browser. Its profile is in a temporary folder, which stop deletes.
func startChrome(program string) (chrome, error) {
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program),
		chromedp.WSURLReadTimeout(time.Minute), // for a cold start on a busy machine
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
		chromedp.Flag("disable-dev-shm-usage", true), // small in containers
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
