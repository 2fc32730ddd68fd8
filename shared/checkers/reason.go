package checkers

// Reason is why a request was denied, e.g. "expired".
type Reason string

// Revoked replaces [Unknown] in the API's response if the key is the project's own. Checkers
// keep no revoked keys.
const Revoked Reason = "revoked"

// The reasons that the API does not distinguish for another project's key: the difference
// would reveal that the key exists.
const (
	Unknown     Reason = "unknown"
	WrongSecret Reason = "wrong_secret"
)

// sentence explains a reason and what to do about it.
type sentence struct {
	reason Reason
	text   string
}

//nolint:gochecknoglobals // a constant table; Go has no constant composite values
var sentences = [...]sentence{
	{"bad_address", "The proxy asked the gate in a way that names no app. Its configuration is wrong; an operator has to look at it."},
	{"not_proven", "The gate could not prove that it knows the current keys, so it refused everybody. It recovers by itself; try again."},
	{"missing", "No key came with the request. It goes into the X-API-Key header."},
	{"repeated", "More than one X-API-Key header came with the request. Send one."},
	{"connect", "The request was a CONNECT, which no key opens."},
	{"unknown_plan", "The gate had not heard of the key's plan yet. Try again in a moment."},
	{"rate", "The key had used up its plan's rate and burst. Send fewer requests a second, or give the key a larger plan."},
	{"shown", "The key's holder asked too often what is left of it."},
	{"quota", "The quota of the key's plan was used up. It is full again with the next period; or give the key a larger plan."},
	{"unshared", "The checkers could not tell each other what is left of the key's quota, so it was not risked. It recovers by itself; try again."},
	{"unleased", "What is left of the key's hard quota was in the hands of other checkers. Try again in a moment."},

	{"malformed", "The value that the request carries is not a key. A part of it is missing, or a character is wrong."},
	{Unknown, "There is no such key in this project."},
	{Revoked, "The key has been revoked, for good. Its holder needs another one."},
	{WrongSecret, "The key has another secret now: it was rotated and the grace of the one before is over, or the text is not the key's."},
	{"disabled", "The key is disabled. Enable it to let it through again."},
	{"expired", "The key has expired. Give it a later expiry, or its holder another key."},
	{"wrong_environment", "The key belongs to another environment than the app."},
	{"wrong_app", "The key is not for this app. Add the app to the key's scope."},
}

// Reasons lists all reasons.
func Reasons() []Reason {
	all := make([]Reason, len(sentences))
	for i, s := range sentences {
		all[i] = s.reason
	}
	return all
}

// Text explains a reason to the owner of the app. It names a reason of another release as
// it is.
func (r Reason) Text() string {
	for _, s := range sentences {
		if s.reason == r {
			return s.text
		}
	}
	return "The gate refused it: " + string(r) + "."
}
