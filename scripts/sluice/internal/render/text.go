package render

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// Clean replaces characters that could move the cursor, forge lines or change the text direction:
// control characters, line separators and bidirectional controls become U+FFFD.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Columns returns the width of a text in terminal columns.
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

// Cut shortens a text to at most limit columns, which must be positive. "…" replaces the end.
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
	return s
}

// CutFront is like [Cut], but "…" replaces the beginning.
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

func pad(s string, to int) string { return s + strings.Repeat(" ", max(to-Columns(s), 0)) }
