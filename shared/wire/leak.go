package wire

import "time"

// FoundSecret is one of the list that is the body of POST /leaks, as secret-scanning
// programs send it. Fields that it does not have are ignored.
type FoundSecret struct {
	Token  string `json:"token"`                  // what was found
	Type   string `json:"type" optional:"true"`   // what the program calls its kind; it is not looked at
	URL    string `json:"url" optional:"true"`    // where it was found; "" is not said
	Source string `json:"source" optional:"true"` // what that is, e.g. "commit"
}

// ReportLeak is the body of POST /leaks/report.
type ReportLeak struct {
	Key *string `json:"key,omitempty" required:"true" kind:"leaked"` // the full API key or service token that was found
	URL string  `json:"url,omitempty" kind:"found_at"`               // where, if that is known
}

// LeaksReceived is the answer to a report, whatever has become of it.
type LeaksReceived struct {
	Received int `json:"received" kind:"count"` // how many secrets it was about
}

// KeyLeak is that a secret of a key was found where strangers can read it.
type KeyLeak struct {
	At      time.Time `json:"at"`                          // when it was reported
	By      string    `json:"by"`                          // who did: a user, a service token, or a program as program:NAME
	FoundAt string    `json:"found_at" kind:"found_at"`    // where it was found; "" was not said
	FoundIn string    `json:"found_in"`                    // what that is to who found it, e.g. "commit"; "" was not said
	Secret  string    `json:"secret" kind:"leaked_secret"` // current until the key is rotated; ended opens nothing any more
}

// What has leaked is to its key now.
const (
	LeakedCurrent = "current" // still its secret
	LeakedEnded   = "ended"   // no secret of it any more
)

// LeakedSecrets lists them.
func LeakedSecrets() []string { return []string{LeakedCurrent, LeakedEnded} }

// LeakedToken is a service token that was reported as leaked, and is revoked.
type LeakedToken struct {
	TokenID string    `json:"token_id" kind:"token_id"`
	Name    string    `json:"name" kind:"token_name"`
	At      time.Time `json:"at"`                       // of the report
	By      string    `json:"by"`                       // who reported it: a user, a service token, or a program as program:NAME
	FoundAt string    `json:"found_at" kind:"found_at"` // "" if the report does not say
	FoundIn string    `json:"found_in"`                 // e.g. "commit"; "" if the report does not say
}
