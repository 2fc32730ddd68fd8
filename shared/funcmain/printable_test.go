package funcmain

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"unicode"

	"github.com/sluicegate/sluice/tests/check"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"plain", "{\"a\":\"b\"}\n", "{\"a\":\"b\"}\n"},
		{"letters", "{\"a\":\"Grüße 💥\"}\n", "{\"a\":\"Grüße 💥\"}\n"},
		{"C1 controls", "\"\u0085\u009b2J\"\n", `"\u0085\u009b2J"` + "\n"},
		{"DEL", "\"\x7f\"\n", `"\u007f"` + "\n"},
		{"direction", "\"a\u202eb\u2066\"\n", `"a\u202eb\u2066"` + "\n"},
		{"beyond 16 bits", "\"\U000e0041\"\n", `"\udb40\udc41"` + "\n"},
		{"broken UTF-8", "\"\xff\"\n", `"\ufffd"` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got bytes.Buffer
			n, err := printable{&got}.Write([]byte(tt.in))
			if n != len(tt.in) || err != nil || got.String() != tt.want {
				t.Errorf("wrote %q (%d, %v), want %q", got.String(), n, err, tt.want)
			}
		})
	}
	if _, err := (printable{failing{}}).Write([]byte("\x7f")); err == nil {
		t.Error("an error is lost")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// A log line is printable, and decodes to the original text.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "a", "\n\r\x1b[2J", "\u0085\u009b", "\x7f", "\u202e", "\U000e0041", "\xff", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var out, plain bytes.Buffer
		slog.New(slog.NewJSONHandler(printable{&out}, nil)).Info("m", "v", s)
		slog.New(slog.NewJSONHandler(&plain, nil)).Info("m", "v", s)
		line := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
		if i := bytes.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
			t.Fatalf("%q is not printable", line)
		}
		var got, want struct{ V string }
		check.OK(t, errors.Join(json.Unmarshal(line, &got), json.Unmarshal(plain.Bytes(), &want)))
		if got != want {
			t.Errorf("%q: got %q, want %q", s, got.V, want.V)
		}
	})
}
