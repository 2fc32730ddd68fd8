package gate

import "math/bits"

// Flaw is what is wrong with a key, for operators alone: a client learns only that
// something is. Several can come together.
type Flaw uint16

// The flaws, the one that says most first.
const (
	Malformed        Flaw = 1 << iota // not a key's shape, or the checksum is wrong
	Unknown                           // no key has this prefix, or it is revoked
	WrongSecret                       // the key has another secret, or this one's grace is over
	Disabled                          // or of a status that nobody knows
	Expired                           // its expiry has passed
	WrongEnvironment                  // of another environment than the app's
	WrongApp                          // its scope does not hold the app
)

// First gives the flaw that says most, 0 without any.
func (f Flaw) First() Flaw {
	if f == 0 {
		return 0
	}
	return 1 << bits.TrailingZeros16(uint16(f))
}

// String names the first flaw, such as "wrong_secret".
func (f Flaw) String() string {
	switch f.First() {
	case Malformed:
		return "malformed"
	case Unknown:
		return "unknown"
	case WrongSecret:
		return "wrong_secret"
	case Disabled:
		return "disabled"
	case Expired:
		return "expired"
	case WrongEnvironment:
		return "wrong_environment"
	case WrongApp:
		return "wrong_app"
	}
	return "none"
}

// Flaws lists all there are.
func Flaws() []Flaw {
	return []Flaw{Malformed, Unknown, WrongSecret, Disabled, Expired, WrongEnvironment, WrongApp}
}

// unless is the flaw f where a condition does not hold.
func (f Flaw) unless(good bool) Flaw {
	if good {
		return 0
	}
	return f
}
