// Package gate decides whether a key opens an app: a pure function of the view,
// the request and the time (specification sections 3.1 and 5).
//
// Rate and quota come after it, in the checker's handler, because they change
// what they look at.
package gate

import (
	"math"
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
}

// Verdict says whether the key is good for the app. Unless it is, nothing else
// of the Verdict but its flaws may be used.
type Verdict struct {
	Valid bool
	Flaws Flaw // what is wrong with the key; none of a valid one

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
	key, known := v.Find(full[prefixAt:][:apikey.PrefixLength])
	at := clamp(now)

	flaws := Unknown.unless(known)
	flaws |= WrongSecret.unless(key.Matches(apikey.HashOf(full), at))
	flaws |= Disabled.unless(key.Active())
	flaws |= Expired.unless(at < key.ExpiresAt())
	flaws |= WrongEnvironment.unless(key.In(r.Namespace))
	flaws |= WrongApp.unless(key.Covers(r.Namespace, r.App))
	if flaws != 0 {
		// For operators alone: a key that opens something has its checksum by its hash.
		_, shaped := apikey.Parse(full)
		flaws |= Malformed.unless(shaped)
		return Verdict{Flaws: flaws}
	}
	limits, defined := key.Limits()
	return Verdict{
		Valid: true, Planless: !defined,
		Prefix: r.Key[prefixAt:][:apikey.PrefixLength],
		Key:    key, Limits: limits,
	}
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

// clamp gives t in Unix nanoseconds, the largest number after the year 2262.
func clamp(t time.Time) int64 {
	if t.Unix() >= math.MaxInt64/int64(time.Second) {
		return math.MaxInt64
	}
	return t.UnixNano()
}
