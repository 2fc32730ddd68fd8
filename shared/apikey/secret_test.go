package apikey

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicegate/sluice/tests/check"
)

// Keys, checksums and hashes computed with Python's zlib and hashlib.
const (
	sample     = "sluice_ab12cd34_000000000000000000000000000000000d06fR" // CRC-32 576302737
	sampleHash = "37dfb6f0d57e3d68a8b886dd361aa630b849d00b7e4f67e3b989481945584249"
	sample2    = "sluice_00000000_zZ9zZ9zZ9zZ9zZ9zZ9zZ9zZ9zZ9zZ9aA38kFMz" // CRC-32 2877631357
	sample3    = "sluice_zzzzzzzz_The1quick2brown3fox4jumps5over6t3sueTW" // CRC-32 3559822598
	lowSum     = "sluice_ab12cd34_0000000000000000000000000000026100ZS6Z" // CRC-32 8449519: leading zeros
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, full, prefix string // prefix is "" if the key is rejected
	}{
		{"digits", sample, "ab12cd34"},
		{"letters", sample2, "00000000"},
		{"mixed", sample3, "zzzzzzzz"},
		{"a checksum with leading zeros", lowSum, "ab12cd34"},
		{"empty", "", ""},
		{"cut short", sample[:len(sample)-1], ""},
		{"one too long", sample + "0", ""},
		{"another marker", "Sluice_" + sample[7:], ""},
		{"marker in another case", strings.ToUpper(sample[:7]) + sample[7:], ""},
		{"no second underscore", sample[:15] + "-" + sample[16:], ""},
		{"one letter of the secret changed", sample[:20] + "1" + sample[21:], ""},
		{"one letter of the prefix changed", "sluice_bb" + sample[9:], ""},
		{"one letter of the checksum changed", sample[:53] + "S", ""},
		{"upper case prefix", "sluice_AB" + sample[9:], ""},
		{"a byte past ASCII", sample[:20] + "\xc3" + sample[21:], ""},
		{"NUL", sample[:20] + "\x00" + sample[21:], ""},
		{"space before", " " + sample[:53], ""},
		{"all underscores", strings.Repeat("_", Length), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			prefix, ok := Parse([]byte(tt.full))
			if string(prefix) != tt.prefix && ok || ok != (tt.prefix != "") {
				t.Errorf("Parse(%q) = %q, %t", tt.full, prefix, ok)
			}
		})
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	full := []byte(sample)
	if n := testing.AllocsPerRun(100, func() { Parse(full) }); n != 0 {
		t.Errorf("Parse: got %v allocations, want 0", n)
	}
}

func TestHashOf(t *testing.T) {
	t.Parallel()
	h := HashOf([]byte(sample))
	if got := hex.EncodeToString(h[:]); got != sampleHash {
		t.Errorf("HashOf = %s, want %s", got, sampleHash)
	}
	if !h.Equal(HashOf([]byte(sample))) || h.Equal(HashOf([]byte(sample2))) || h.Equal(Hash{}) {
		t.Error("Equal: got a wrong result")
	}
}

func TestNewSecret(t *testing.T) {
	t.Parallel()
	if Length != 54 {
		t.Fatalf("length of a key: got %d, want 54", Length)
	}
	random := seeded(1)
	seen := map[string]bool{}
	for range 1000 {
		prefix, err := NewPrefix(random)
		if err != nil || !ValidPrefix(string(prefix)) {
			t.Fatalf("NewPrefix = %q, %v", prefix, err)
		}
		full, err := NewSecret(random, prefix)
		check.OK(t, err)
		got, ok := Parse([]byte(full))
		if !ok || string(got) != string(prefix) {
			t.Fatalf("Parse of a new key: got %q, %t", got, ok)
		}
		if seen[string(full)] {
			t.Fatal("got the same key twice")
		}
		seen[string(full)] = true
	}
}

func TestRandomFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("no entropy")
	if _, err := NewPrefix(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("NewPrefix: got error %v, want that of the reader", err)
	}
	if full, err := NewSecret(iotest.ErrReader(broken), "ab12cd34"); !errors.Is(err, broken) || full != "" {
		t.Errorf("NewSecret: got error %v, want that of the reader", err)
	}
	if _, err := NewPrefix(bytes.NewReader([]byte("short"))); err == nil {
		t.Error("NewPrefix with 5 random bytes: got no error")
	}
}

func TestDrawRejects(t *testing.T) {
	t.Parallel()
	for alphabet, first := range map[string]byte{base62: 248, base36: 252} {
		var source []byte
		for range 64 {
			source = append(source, first, 255, first-1) // maps to the last character of the alphabet
		}
		got, err := draw(bytes.NewReader(source), alphabet, 20)
		if want := strings.Repeat(alphabet[len(alphabet)-1:], 20); err != nil || got != want {
			t.Errorf("draw = %q, %v, want %q", got, err, want)
		}
	}
}

// The chi-square statistic of 310,000 characters must be below the 99.99th percentile for 61 (112)
// and 35 (75) degrees of freedom. The control shows that the test detects modulo bias.
func TestDrawIsUniform(t *testing.T) {
	t.Parallel()
	const n = 310_000
	for alphabet, limit := range map[string]float64{base62: 112, base36: 75} {
		s, err := draw(seeded(2), alphabet, n)
		check.OK(t, err)
		if x := chiSquare(s, alphabet); x > limit {
			t.Errorf("%d characters: got chi-square %.1f, want at most %.0f", len(alphabet), x, limit)
		}
		raw := make([]byte, n)
		if _, err := io.ReadFull(seeded(2), raw); err != nil {
			t.Fatal(err)
		}
		for i, b := range raw {
			raw[i] = alphabet[int(b)%len(alphabet)]
		}
		if x := chiSquare(string(raw), alphabet); x < limit {
			t.Errorf("%d characters: got chi-square %.1f for the biased control", len(alphabet), x)
		}
	}
}

func TestFullIsRedacted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "key", Full(sample))
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "key", Full(sample), "list", []Full{sample})
	fmt.Fprintf(&out, "%v %s %+v %#v %q %v", Full(sample), Full(sample), struct{ K Full }{sample}, Full(sample), Full(sample), []Full{sample})
	if strings.Contains(out.String(), sample[16:40]) {
		t.Errorf("got the secret in the output: %s", out.String())
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{sample, sample2, sample3, lowSum, "", "sluice_", strings.Repeat("\xff", Length)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, full []byte) {
		before := bytes.Clone(full)
		prefix, ok := Parse(full)
		if !bytes.Equal(full, before) {
			t.Fatal("Parse changed its input")
		}
		if !ok {
			return
		}
		id := IDOf(Prefix(prefix))
		if p, fine := id.Prefix(); !fine || string(p) != string(prefix) {
			t.Fatalf("accepted key %q has no ID", id)
		}
		for i := range full {
			full[i] ^= 1
			if _, ok := Parse(full); ok {
				t.Fatalf("key with a changed byte %d is accepted", i)
			}
			full[i] ^= 1
		}
	})
}

func seeded(n byte) io.Reader { return rand.NewChaCha8([32]byte{n}) }

func chiSquare(s, alphabet string) float64 {
	want := float64(len(s)) / float64(len(alphabet))
	x := 0.0
	for _, c := range alphabet {
		d := float64(strings.Count(s, string(c))) - want
		x += d * d / want
	}
	return x
}
