// Package gate decides whether a key is valid for an app (promises K1, K2, K5, K6, K7). The
// checker enforces rate and quota afterwards.
package gate

import (
	"math/bits"
	"time"
	"unsafe"

	"github.com/sluicegate/sluice/functions/checker/internal/view"
	"github.com/sluicegate/sluice/shared/apikey"
)

// Request holds the attributes of a request that decide access.
type Request struct {
	Namespace string // from trusted configuration
	App       string
	Key       string
	KeyInfo   bool // GET /api/v1/key: no app
}

// Reason is the reason for rejecting a key. The client must not learn it (package denials).
type Reason int

// The reasons. If several apply, the first is reported.
const (
	Malformed   Reason = iota + 1
	Unknown            // or revoked
	WrongSecret        // or the grace period of the previous secret is over
	Disabled           // or an unknown status
	Expired
	WrongEnvironment
	WrongApp
)

// Reasons returns the names of all reasons, in their order.
func Reasons() []string {
	return []string{"malformed", "unknown", "wrong_secret", "disabled", "expired", "wrong_environment", "wrong_app"}
}

// Verdict is a decision about a key. If Valid is false, only Reason may be used.
type Verdict struct {
	Valid  bool
	Reason Reason

	Prefix string // substring of the request's key
	Key    view.Key
	Limits view.Limits

	PlanUnknown bool // the key's plan is not in the view
}

// Decide checks the key's existence, secret, status, expiry and scope. It does the same work for
// every invalid key, so the response time does not reveal the reason.
func Decide(v *view.View, r Request, now time.Time) Verdict {
	full := bytesOf(r.Key)
	key, found := v.Find(full[prefixAt:][:apikey.PrefixLength])
	at := view.Nanos(now)

	wrong := unless(found, Unknown)
	wrong |= unless(key.Matches(apikey.HashOf(full), at), WrongSecret)
	wrong |= unless(key.Active(), Disabled)
	wrong |= unless(at < key.ExpiresAt(), Expired)
	wrong |= unless(r.KeyInfo || key.In(r.Namespace), WrongEnvironment)
	wrong |= unless(r.KeyInfo || key.Covers(r.Namespace, r.App), WrongApp)
	if wrong != 0 {
		// The checksum affects only the reason: the hash of a valid key includes it.
		_, shaped := apikey.Parse(full)
		wrong |= unless(shaped, Malformed)
		return Verdict{Reason: Reason(bits.TrailingZeros(wrong))}
	}
	limits, defined := key.Limits()
	return Verdict{
		Valid: true, PlanUnknown: !defined,
		Prefix: r.Key[prefixAt:][:apikey.PrefixLength],
		Key:    key, Limits: limits,
	}
}

func unless(ok bool, r Reason) uint {
	if ok {
		return 0
	}
	return 1 << r
}

const prefixAt = apikey.Length - apikey.SecretLength - 1 - apikey.PrefixLength

// noKey replaces keys of another length. No key has its prefix.
const noKey = "sluice_00000000_00000000000000000000000000000000000000"

// bytesOf avoids the allocation of a copy. Callers only read the bytes.
func bytesOf(key string) []byte {
	if len(key) != apikey.Length {
		key = noKey
	}
	return unsafe.Slice(unsafe.StringData(key), len(key)) //nolint:gosec // a string's bytes, not written to
}
