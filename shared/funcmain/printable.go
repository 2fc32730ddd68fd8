package funcmain

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable writes JSON on to a log with everything escaped that does not print:
// encoding/json leaves DEL, the C1 controls, which terminals obey as they do escape
// sequences, and the marks that turn the direction of writing around as they are. In
// valid JSON they stand in strings alone, where an escape means the same.
type printable struct{ to io.Writer }

// Write implements [io.Writer]; a line comes in one call, and goes on in one.
func (p printable) Write(line []byte) (int, error) {
	if plain(line) {
		return p.to.Write(line)
	}
	escaped := make([]byte, 0, 2*len(line))
	for rest := line; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == '\n', unicode.IsPrint(r) && r != utf8.RuneError:
			escaped = append(escaped, rest[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	if _, err := p.to.Write(escaped); err != nil {
		return 0, err
	}
	return len(line), nil
}

// plain tells whether a line is visible ASCII to its end, as nearly all are.
func plain(line []byte) bool {
	for _, c := range line {
		if (c < ' ' && c != '\n') || c > '~' {
			return false
		}
	}
	return true
}
