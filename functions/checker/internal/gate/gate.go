// Package gate decides whether a key opens an app: a pure function of the view,
// the request and the time (promises K1, K2, K5, K6, K7).
//
// Rate and quota come after it, in the checker's handler, because they change
// what they look at.
package gate

import (
	"math/bits"
	"time"
	"unsafe"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
)

// Request is what of a request decides.
type Request struct {
	Namespace string // of the app, from trusted configuration
	App       string
	Key       string // the X-API-Key header's value; anything that is not a key opens nothing
	Itself    bool   // it is about the key itself, whatever it opens: there is no app
}

// Reason is why a key opens nothing, for operators alone: a client learns only that
// it does not.
type Reason int

// The reasons, the one that says most first. A valid key has none of them.
const (
	Malformed        Reason = iota + 1 // not a key's shape, or the checksum is wrong
	Unknown                            // no key has this prefix, or it is revoked
	WrongSecret                        // the key has another secret, or this one's grace is over
	Disabled                           // or of a status that nobody knows
	Expired                            // its expiry has passed
	WrongEnvironment                   // of another environment than the app's
	WrongApp                           // its scope does not hold the app
)

// Reasons names all there are, in their order.
func Reasons() []string {
	return []string{"malformed", "unknown", "wrong_secret", "disabled", "expired", "wrong_environment", "wrong_app"}
}

// Verdict says whether the key is good for the app. Unless it is, nothing else
// of the Verdict but its reason may be used.
type Verdict struct {
	Valid  bool
	Reason Reason // the first of those that apply

	Prefix string // the key's public handle: a part of the request's own key
	Key    view.Key
	Limits view.Limits

	// Planless says that the key's plan is not in the view (yet): the key is
	// real, but what it may do is not known.
	Planless bool
}

// Decide checks existence, secret, status, expiry and scope. Whatever is wrong
// with a key, the same work is done: the answer's timing tells an unknown key
// from a disabled one as little as its body does. It allocates nothing.
func Decide(v *view.View, r Request, now time.Time) Verdict {
	full := bytesOf(r.Key)
	key, found := v.Find(full[prefixAt:][:apikey.PrefixLength])
	at := view.Nanos(now)

	wrong := unless(found, Unknown)
	wrong |= unless(key.Matches(apikey.HashOf(full), at), WrongSecret)
	wrong |= unless(key.Active(), Disabled)
	wrong |= unless(at < key.ExpiresAt(), Expired)
	wrong |= unless(r.Itself || key.In(r.Namespace), WrongEnvironment)
	wrong |= unless(r.Itself || key.Covers(r.Namespace, r.App), WrongApp)
	if wrong != 0 {
		// For operators alone: a key that opens something has its checksum by its hash.
		_, shaped := apikey.Parse(full)
		wrong |= unless(shaped, Malformed)
		return Verdict{Reason: Reason(bits.TrailingZeros(wrong))}
	}
	limits, defined := key.Limits()
	return Verdict{
		Valid: true, Planless: !defined,
		Prefix: r.Key[prefixAt:][:apikey.PrefixLength],
		Key:    key, Limits: limits,
	}
}

// unless is the bit of a reason where a condition does not hold.
func unless(good bool, r Reason) uint {
	if good {
		return 0
	}
	return 1 << r
}

// prefixAt is where a key's prefix begins.
const prefixAt = apikey.Length - apikey.SecretLength - 1 - apikey.PrefixLength

// noKey stands in for what has not a key's length; nobody has it.
const noKey = "sluice_00000000_00000000000000000000000000000000000000"

// bytesOf gives a key's bytes without copying them, which would cost an
// allocation on each request. They are only read.
func bytesOf(key string) []byte {
	if len(key) != apikey.Length {
		key = noKey
	}
	return unsafe.Slice(unsafe.StringData(key), len(key)) //nolint:gosec // a string's bytes, not written to
}
