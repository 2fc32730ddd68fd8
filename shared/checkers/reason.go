package checkers

// Reason is the reason for a denial, e.g. "expired".
type Reason string

// Revoked replaces [Unknown] in the API's response for a revoked key of the project. Checkers do
// not store revoked keys.
const Revoked Reason = "revoked"

// The API does not distinguish these reasons for keys of other projects: the difference would
// reveal that a key exists.
const (
	Unknown     Reason = "unknown"
	WrongSecret Reason = "wrong_secret"
)

type sentence struct {
	reason Reason
	text   string
}

//nolint:gochecknoglobals // a constant table
var sentences = [...]sentence{
	{"bad_address", "The proxy's request to the gate identifies no app. Ask an operator to check the configuration of the proxy."},
	{"not_proven", "The gate could not verify that its data is current, so it denied all requests. It recovers automatically. Try again later."},
	{"missing", "The request had no API key. Send the key in the X-API-Key header."},
	{"repeated", "The request had more than one X-API-Key header. Send only one."},
	{"connect", "The request used the CONNECT method, which is always denied."},
	{"unknown_plan", "The gate did not know the plan of the key yet. Try again."},
	{"rate", "The key exceeded the rate and burst of its plan. Send fewer requests per second, or assign a larger plan to the key."},
	{"shown", "The client requested the limits of the key too often. Send fewer such requests."},
	{"quota", "The quota of the key was used up. Wait for the next quota period, or assign a larger plan to the key."},
	{"unshared", "The checkers could not exchange the counts of the key, so the request was denied to protect the quota. They recover automatically. Try again later."},
	{"unleased", "Other checkers held the rest of the key's hard quota. Try again."},

	{"malformed", "The key in the request is malformed: a part is missing, or a character is invalid."},
	{Unknown, "The key does not exist in this project."},
	{Revoked, "The key is revoked permanently. Create another key for its user."},
	{WrongSecret, "The secret is not valid for the key. The key was rotated and the grace period has ended, or the secret is wrong."},
	{"disabled", "The key is disabled. Enable it to allow its requests again."},
	{"expired", "The key has expired. Change its expiry, or create another key."},
	{"wrong_environment", "The key belongs to another environment. Use a key of the app's environment."},
	{"wrong_app", "The key has no access to this app. Add the app to the scope of the key."},
}

// Reasons returns all reasons.
func Reasons() []Reason {
	all := make([]Reason, len(sentences))
	for i, s := range sentences {
		all[i] = s.reason
	}
	return all
}

// Text returns an explanation for the owner of the app.
func (r Reason) Text() string {
	for _, s := range sentences {
		if s.reason == r {
			return s.text
		}
	}
	return "The gate denied the request: " + string(r) + "."
}
