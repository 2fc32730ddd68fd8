package render

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Clean makes text that came from elsewhere safe to show: control characters, which
// could move the cursor or forge lines, and characters that turn the direction of
// writing become U+FFFD.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Columns is how many columns of a terminal a text takes.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// Cut shortens a text to some columns, at least one; "…" stands for what is missing.
func Cut(s string, limit int) string {
	if Columns(s) <= limit {
		return s
	}
	n := 0
	for i, r := range s {
		if n+columns(r) > limit-1 {
			return s[:i] + "…"
		}
		n += columns(r)
	}
	return s // not reached: it is too long
}

// CutFront shortens a text to some columns, at least one, and keeps its end.
func CutFront(s string, limit int) string {
	n := Columns(s)
	if n <= limit {
		return s
	}
	for i, r := range s {
		if n <= limit-1 {
			return "…" + s[i:]
		}
		n -= columns(r)
	}
	return "…"
}

// pad fills a text up with space.
func pad(s string, to int) string { return s + strings.Repeat(" ", max(to-Columns(s), 0)) }
