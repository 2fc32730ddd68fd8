package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
)

// The shape of a key (promise K4).
const (
	marker       = "sluice_"
	PrefixLength = 8
	secretRandom = 32 // base62 characters from crypto/rand
	secretSum    = 6  // base62 characters of CRC-32 over everything before them

	// SecretLength is that of the part after the second underscore.
	SecretLength = secretRandom + secretSum

	// Length is that of every full key in bytes: one SHA-256 block.
	Length = len(marker) + PrefixLength + 1 + SecretLength
)

const (
	base36 = "0123456789abcdefghijklmnopqrstuvwxyz"
	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Prefix is the public handle of a key, e.g. "ab12cd34": 8 of [0-9a-z].
type Prefix string

// Full is a whole key as the client sends it. It prints as "[redacted]".
type Full string

// LogValue keeps the key out of logs.
func (Full) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps the key out of anything printed. Use string(f) to send it.
func (Full) String() string { return "[redacted]" }

// GoString keeps the key out of %#v.
func (Full) GoString() string { return "[redacted]" }

// Hash is the SHA-256 of a full key: what is stored of it.
type Hash [sha256.Size]byte

// Equal compares in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// HashOf hashes a full key. A key has 190 random bits, so no slow hash is
// needed: there is nothing to guess.
func HashOf(full []byte) Hash { return sha256.Sum256(full) }

// NewPrefix draws a prefix from random.
func NewPrefix(random io.Reader) (Prefix, error) {
	s, err := NewHandle(random, PrefixLength)
	return Prefix(s), err
}

// NewHandle draws n of [0-9a-z] from random.
func NewHandle(random io.Reader, n int) (string, error) { return draw(random, base36, n) }

// NewSecret draws a secret for prefix and gives the full key.
func NewSecret(random io.Reader, prefix Prefix) (Full, error) {
	s, err := Seal(random, marker+string(prefix)+"_")
	return Full(s), err
}

// Seal puts a secret behind a public part: [SecretLength] characters, of which the last
// are the checksum of all before them.
func Seal(random io.Reader, public string) (string, error) {
	s, err := draw(random, base62, secretRandom)
	if err != nil {
		return "", err
	}
	body := public + s
	sum := checksum([]byte(body))
	return body + string(sum[:]), nil
}

// Random is the source of keys: crypto/rand.
func Random() io.Reader { return rand.Reader }

// Parse checks a key's shape and checksum and gives its prefix. It allocates
// nothing: the prefix is a part of full. It is for what looks for keys in other
// text, as secret scanners do, and for telling an operator of a typing error. It
// authenticates nothing, and the checker decides without it: to find no key in
// memory takes less.
func Parse(full []byte) (prefix []byte, ok bool) {
	if len(full) != Length || string(full[:len(marker)]) != marker || full[len(marker)+PrefixLength] != '_' {
		return nil, false
	}
	prefix = full[len(marker) : len(marker)+PrefixLength]
	if !allIn36(prefix) || !Sealed(full) {
		return nil, false
	}
	return prefix, true
}

// Sealed tells whether full ends with a secret and the right checksum, as [Seal] makes
// it. It authenticates nothing.
func Sealed(full []byte) bool {
	if len(full) < SecretLength || !allIn62(full[len(full)-SecretLength:]) {
		return false
	}
	body := len(full) - secretSum
	sum := checksum(full[:body])
	return string(sum[:]) == string(full[body:])
}

// ValidPrefix tells whether s has the shape of a prefix.
func ValidPrefix(s string) bool { return ValidHandle(s, PrefixLength) }

// ValidHandle tells whether s is n of [0-9a-z].
func ValidHandle(s string, n int) bool { return len(s) == n && allIn36([]byte(s)) }

func allIn36(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

func allIn62(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// checksum writes the CRC-32 (IEEE) of b in base62, most significant first.
func checksum(b []byte) (sum [secretSum]byte) {
	n := crc32.ChecksumIEEE(b)
	for i := secretSum - 1; i >= 0; i-- {
		sum[i] = base62[n%62]
		n /= 62
	}
	return sum
}

// draw takes n characters of alphabet from random without modulo bias: bytes
// past the largest multiple of the alphabet's size are thrown away.
func draw(random io.Reader, alphabet string, n int) (string, error) {
	limit := byte(256 / len(alphabet) * len(alphabet))
	var out strings.Builder
	buf := make([]byte, 64)
	for out.Len() < n {
		if _, err := io.ReadFull(random, buf); err != nil {
			return "", err
		}
		for _, b := range buf {
			if b < limit && out.Len() < n {
				out.WriteByte(alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return out.String(), nil
}
