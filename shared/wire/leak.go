package wire

import "time"

// FoundSecret is an item of the list in the body of POST /leaks. Unknown fields are ignored.
type FoundSecret struct {
	Token  string `json:"token"`                  // found secret
	Type   string `json:"type" optional:"true"`   // ignored
	URL    string `json:"url" optional:"true"`    // location of the secret
	Source string `json:"source" optional:"true"` // kind of location, e.g. "commit"
}

// ReportLeak is the body of POST /leaks/report.
type ReportLeak struct {
	Key *string `json:"key,omitempty" required:"true" kind:"leaked"` // leaked full API key or service token
	URL string  `json:"url,omitempty" kind:"found_at"`               // location of the secret, if known
}

// LeaksReceived is the response to a report, regardless of its result.
type LeaksReceived struct {
	Received int `json:"received" kind:"count"` // number of reported secrets
}

// KeyLeak is a report that a secret of a key has leaked.
type KeyLeak struct {
	At      time.Time `json:"at"`                          // time of the report
	By      string    `json:"by"`                          // reporter: a user, a service token, or a program as program:NAME
	FoundAt string    `json:"found_at" kind:"found_at"`    // location of the secret; "" if not specified
	FoundIn string    `json:"found_in"`                    // kind of location, e.g. "commit"; "" if not specified
	Secret  string    `json:"secret" kind:"leaked_secret"` // state of the leaked secret: current until the key is rotated, ended if it is no longer valid
}

// The states of a leaked secret.
const (
	LeakedCurrent = "current" // still the key's secret
	LeakedEnded   = "ended"   // no longer valid
)

// LeakedSecrets returns all states of a leaked secret.
func LeakedSecrets() []string { return []string{LeakedCurrent, LeakedEnded} }

// LeakedToken is a service token that was revoked because of a leak report. The report is as in KeyLeak.
type LeakedToken struct {
	TokenID string    `json:"token_id" kind:"token_id"`
	Name    string    `json:"name" kind:"token_name"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	FoundAt string    `json:"found_at" kind:"found_at"`
	FoundIn string    `json:"found_in"`
}
