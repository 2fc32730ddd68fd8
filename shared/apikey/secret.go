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

// The format of a key (promise K4).
const (
	marker       = "sluice_"
	PrefixLength = 8
	secretRandom = 32 // base62 characters
	secretSum    = 6  // base62 characters: CRC-32 of all previous characters

	// SecretLength is the length of the secret with its checksum.
	SecretLength = secretRandom + secretSum

	// Length is the length of a full key in bytes, which fits into one SHA-256 block.
	Length = len(marker) + PrefixLength + 1 + SecretLength
)

const (
	base36 = "0123456789abcdefghijklmnopqrstuvwxyz"
	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Prefix is the public part of a key: 8 characters of 0-9a-z.
type Prefix string

// Full is a full key. It prints as "[redacted]"; use string(f) to send it.
type Full string

// LogValue redacts the key.
func (Full) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func (Full) String() string { return "[redacted]" }

// GoString redacts the key.
func (Full) GoString() string { return "[redacted]" }

// Hash is the SHA-256 of a full key.
type Hash [sha256.Size]byte

// Equal compares in constant time.
func (h Hash) Equal(other Hash) bool { return subtle.ConstantTimeCompare(h[:], other[:]) == 1 }

// HashOf returns the hash of a full key. It need not be slow, because a key has 190 random bits (32
// base62 characters).
func HashOf(full []byte) Hash { return sha256.Sum256(full) }

// NewPrefix returns a random prefix.
func NewPrefix(random io.Reader) (Prefix, error) {
	s, err := NewHandle(random, PrefixLength)
	return Prefix(s), err
}

// NewHandle returns n random characters of 0-9a-z.
func NewHandle(random io.Reader, n int) (string, error) { return draw(random, base36, n) }

// NewSecret returns a full key with a random secret.
func NewSecret(random io.Reader, prefix Prefix) (Full, error) {
	s, err := Seal(random, marker+string(prefix)+"_")
	return Full(s), err
}

// Seal appends a random secret with its checksum to the public part.
func Seal(random io.Reader, public string) (string, error) {
	s, err := draw(random, base62, secretRandom)
	if err != nil {
		return "", err
	}
	body := public + s
	sum := checksum([]byte(body))
	return body + string(sum[:]), nil
}

// Random returns the source of keys.
func Random() io.Reader { return rand.Reader }

// Parse verifies the format and the checksum of a full key and returns its prefix. Use it to search
// text and to detect typing errors. It does not authenticate the key.
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

// Sealed reports whether full ends with a secret and the correct checksum.
func Sealed(full []byte) bool {
	if len(full) < SecretLength || !allIn62(full[len(full)-SecretLength:]) {
		return false
	}
	body := len(full) - secretSum
	sum := checksum(full[:body])
	return string(sum[:]) == string(full[body:])
}

// ValidPrefix reports whether s is a well-formed prefix.
func ValidPrefix(s string) bool { return ValidHandle(s, PrefixLength) }

// ValidHandle reports whether s consists of n characters of 0-9a-z.
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

// checksum returns the CRC-32 (IEEE) of b in base62, most significant digit first.
func checksum(b []byte) (sum [secretSum]byte) {
	n := crc32.ChecksumIEEE(b)
	for i := secretSum - 1; i >= 0; i-- {
		sum[i] = base62[n%62]
		n /= 62
	}
	return sum
}

// draw returns n random characters. To avoid modulo bias, it discards bytes beyond the largest
// multiple of the alphabet's size.
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
