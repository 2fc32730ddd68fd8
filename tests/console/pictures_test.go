package console

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

var writePictures = flag.Bool("pictures", false, "write the pictures of the README (make pictures)")

// maxPicture is the maximum size of a picture in bytes, because the repository stores it.
const maxPicture = 150_000

// TestPictures writes the pictures of the README: the pages of a team with a week of traffic, in
// both themes.
func TestPictures(t *testing.T) {
	if !*writePictures {
		t.Skip("set -pictures to write the pictures")
	}
	s, busiest := team(t)
	for _, p := range []struct {
		name, path string
		height     int64
	}{
		{"overview", s.page(), 740},
		{"key", s.page("api-keys", busiest.ID), 726},
	} {
		light := window{name: "light", width: 1200, height: p.height}
		dark := light
		dark.name, dark.dark = "dark", true
		for _, w := range []window{light, dark} {
			v := browseAs(t, w, person{"ada", "a long enough password"})
			v.opens(p.path)
			shot, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
			must(v.t, err)
			picture := smaller(t, shot)
			if len(picture) > maxPicture {
				t.Errorf("%s, %s: got %d bytes, want at most %d", p.name, w.name, len(picture), maxPicture)
			}
			must(v.t, os.WriteFile(filepath.Join("pictures", p.name+"-"+w.name+".png"), picture, 0o644))
		}
	}
}

// team returns the project of a team with its owner ada, and the project's busiest key.
func team(t *testing.T) (site, stacktest.Key) {
	t.Helper()
	s := site{stacktest.Named(t, world, "shop")}
	_, err := s.Client.CreateUser(t.Context(), "ada", "a long enough password", false)
	must(t, err)
	must(t, s.Client.SetMembers(t.Context(), s.Project, []wire.Member{{Username: "ada", Role: "owner"}}))
	for _, app := range []string{"catalog", "recommendations", "search"} {
		s.GatedApp(app)
		url, token := s.Webhook(app)
		s.deploys(url, token, "registry.example/shop/"+app+"@sha256:"+strings.Repeat("42", 32), 202)
		s.Settled(app, 2, "live")
	}
	plan := func(name string, rate float64, burst, quota int64, period string) wire.Plan {
		return s.Plan(wire.CreatePlan{Name: &name, Rate: &rate, Burst: &burst, Quota: &quota, QuotaPeriod: &period})
	}
	gold, partner := plan("Gold", 200, 400, goldQuota, "day"), plan("Partner", 10, 20, 10_000, "day")
	busiest := s.traffic(s.named(gold, "Checkout team"), 41_000, 40)
	s.traffic(s.named(gold, "Mobile app"), 27_000, 0)
	s.traffic(s.named(partner, "Northwind product feed"), 9_100, 30)
	s.traffic(s.Key(partner, expiring("Nightly reports", 5*24*time.Hour)), 900, 300)
	s.Disable(s.named(partner, "Load test"))
	return s, busiest
}

// goldQuota is the quota that the busiest key exceeds on one day.
const goldQuota = 55_000

// traffic adds three weeks of about perDay requests on each working day, and fewer at weekends.
// About one of tooFast requests exceeds the rate; 0 means none.
func (s site) traffic(k stacktest.Key, perDay, tooFast uint64) stacktest.Key {
	s.T.Helper()
	s.used(k, 21, func(ago int) usage.Totals {
		n := perDay - perDay*uint64(ago*ago*7%30)/100
		if day := time.Now().AddDate(0, 0, -ago).Weekday(); day == time.Saturday || day == time.Sunday {
			n /= 2
		}
		t := usage.Totals{Allowed: n}
		if tooFast > 0 {
			t.RateDenied = n / tooFast * uint64(1+ago%3)
		}
		if perDay > goldQuota/2 && ago == 3 {
			t.Allowed, t.QuotaDenied = goldQuota, n/8
		}
		return t
	})
	return k
}

// smaller reduces a picture to its 256 most frequent colors, which takes a third of the bytes.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	must(t, err)
	seen := map[color.Color]int{}
	b := from.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			seen[from.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(seen), func(a, b color.Color) int { return cmp.Compare(seen[b], seen[a]) })
	to := image.NewPaletted(b, most[:min(len(most), 256)])
	draw.Draw(to, b, from, b.Min, draw.Src)
	var out bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to))
	return out.Bytes()
}
