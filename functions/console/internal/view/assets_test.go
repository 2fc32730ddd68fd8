package view

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

// TestThemesDifferInColors checks that the dark theme changes only colors and shadows. TestLayout in
// tests/console therefore tests only the light theme.
func TestThemesDifferInColors(t *testing.T) {
	t.Parallel()
	style, err := assetFiles.ReadFile("assets/style.css")
	check.OK(t, err)
	blocks := regexp.MustCompile(`(?s)@media \(prefers-color-scheme: dark\) \{(.*?)\n\}`).FindAllSubmatch(style, -1)
	if len(blocks) == 0 {
		t.Fatal("no dark theme found")
	}
	color := regexp.MustCompile(`^--[a-z-]+: (#[0-9a-f]{3,8}|none)$`)
	for _, block := range blocks {
		for _, rule := range regexp.MustCompile(`(?s)\{(.*?)\}`).FindAllSubmatch(block[1], -1) {
			for declaration := range strings.SplitSeq(string(rule[1]), ";") {
				if d := strings.TrimSpace(declaration); d != "" && !color.MatchString(d) {
					t.Errorf("the dark theme sets %q", d)
				}
			}
		}
	}
}

func readStyle(t *testing.T) (style string, light, dark map[string]string) {
	t.Helper()
	text, err := assetFiles.ReadFile("assets/style.css")
	check.OK(t, err)
	style = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(string(text), "")
	roots := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(style, 2)
	if len(roots) != 2 {
		t.Fatalf("got %d themes, want 2", len(roots))
	}
	light, dark = map[string]string{}, map[string]string{}
	for i, root := range roots {
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6,8})\b`).FindAllStringSubmatch(root[1], -1) {
			if dark[m[1]] = m[2]; i == 0 {
				light[m[1]] = m[2]
			}
		}
	}
	return style, light, dark
}

// TestStyleUsesItsScales checks that texts, spaces, corners and weights have the sizes of the scales,
// and that rules name their colors.
func TestStyleUsesItsScales(t *testing.T) {
	t.Parallel()
	style, light, dark := readStyle(t)
	for name := range light {
		if dark[name] == "" {
			t.Errorf("the dark theme lacks --%s", name)
		}
	}
	sizes := map[*regexp.Regexp]*regexp.Regexp{
		regexp.MustCompile(`^font-size$`):                       regexp.MustCompile(`^var\(--text-[a-z]+\)$`),
		regexp.MustCompile(`^font-weight$`):                     regexp.MustCompile(`^var\(--(normal|medium|bold)\)$`),
		regexp.MustCompile(`^font$`):                            regexp.MustCompile(`^(inherit|var\(--normal\) var\(--text-m\)/1\.5 var\(--sans\))$`),
		regexp.MustCompile(`^border-(radius|.*-radius)$`):       regexp.MustCompile(`^(0|50%|var\(--round[a-z-]*\))$`),
		regexp.MustCompile(`^(padding|margin|gap)(-[a-z-]+)?$`): regexp.MustCompile(`^((0|auto|8vh|var\(--(space-\d|edge)\)|calc\(var\(--(space-\d|edge)\) [-+] [.\d]+r?em\)) ?)+$`),
	}
	colors := regexp.MustCompile(`#[0-9a-f]{3}|rgb|hsl`)
	declarations := 0
	for _, rule := range regexp.MustCompile(`([^{}]*)\{([^{}]*)\}`).FindAllStringSubmatch(style, -1) {
		for declaration := range strings.SplitSeq(rule[2], ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(declaration), ": ")
			declarations++
			for which, want := range sizes {
				if which.MatchString(name) && !want.MatchString(value) {
					t.Errorf("%s: got %s: %s, want %s", strings.TrimSpace(rule[1]), name, value, want)
				}
			}
			if !strings.HasPrefix(name, "--") && colors.MatchString(value) {
				t.Errorf("%s: got %s: %s, want a named color", strings.TrimSpace(rule[1]), name, value)
			}
		}
	}
	for _, used := range regexp.MustCompile(`var\(--([a-z0-9-]+)`).FindAllStringSubmatch(style, -1) {
		if !strings.Contains(style, "--"+used[1]+": ") {
			t.Errorf("the style sheet does not define --%s", used[1])
		}
	}
	if declarations < 500 {
		t.Errorf("got only %d declarations", declarations)
	}
}

// TestContrast checks the contrast of both themes by WCAG 2.2, level AA: 4.5 for text, and 3 for the
// parts of controls and charts.
func TestContrast(t *testing.T) {
	t.Parallel()
	pairs := []struct {
		fronts, grounds string
		least           float64
	}{
		{"text muted accent", "ground card sunk", 4.5},
		{"text muted", "hover", 4.5},
		{"accent-text", "accent-ground", 4.5},
		{"bad-text", "bad-button", 4.5},
		{"bad", "card ground bad-ground hover", 4.5},
		{"good", "good-ground", 4.5},
		{"amber", "amber-ground", 4.5},
		{"blue", "blue-ground", 4.5},
		{"field accent", "card ground", 3},
		{"chart-allowed chart-rate chart-quota chart-key", "card", 3},
	}
	_, light, dark := readStyle(t)
	for theme, colors := range map[string]map[string]string{"light": light, "dark": dark} {
		for _, p := range pairs {
			for front := range strings.FieldsSeq(p.fronts) {
				for ground := range strings.FieldsSeq(p.grounds) {
					if got := contrast(t, colors[front], colors[ground]); got < p.least {
						t.Errorf("%s: contrast of --%s on --%s: got %.2f, want at least %.1f", theme, front, ground, got, p.least)
					}
				}
			}
		}
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(color string) float64 {
		n, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 24)
		check.OK(t, err)
		part := func(shift int) float64 {
			v := float64(n>>shift&0xff) / 255
			if v <= 0.04045 {
				return v / 12.92
			}
			return math.Pow((v+0.055)/1.055, 2.4)
		}
		return 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
	}
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}
