package funcmain

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable escapes nonprintable characters in JSON logs. encoding/json does not escape DEL, C1
// controls and direction marks, which can affect terminals. In valid JSON, they occur only in
// strings, where they can be escaped.
type printable struct{ to io.Writer }

// Write implements [io.Writer]. Each call contains whole lines.
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

func plain(line []byte) bool {
	for _, c := range line {
		if (c < ' ' && c != '\n') || c > '~' {
			return false
		}
	}
	return true
}
