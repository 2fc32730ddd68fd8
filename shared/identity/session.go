package identity

import (
	"crypto/rand"
	"log/slog"
	"time"
)

// SessionTTL is how long a session lasts (promise S3).
const SessionTTL = 12 * time.Hour

// Caller is who makes a request.
type Caller struct {
	Username string
	Admin    bool // owner of every project, and manager of users
}

// Session is what a token says.
type Session struct {
	ID        string // jti: 26 of [A-Z2-7], 130 random bits
	Caller    Caller
	CSRF      string // goes with changes made by cookie, in X-CSRF-Token
	Version   int64  // of the user's password; a change ends the session
	IssuedAt  time.Time
	ExpiresAt time.Time
}

// Token is a signed session. It prints as "[redacted]".
type Token string

// LogValue keeps the token out of logs.
func (Token) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// String keeps the token out of anything printed. Use string(t) to send it.
func (Token) String() string { return "[redacted]" }

// GoString keeps the token out of %#v.
func (Token) GoString() string { return "[redacted]" }

// NewSession starts a session at now, which a token holds in whole seconds.
// version is that of the user's password, see [Sessions].
func NewSession(c Caller, version int64, now time.Time) Session {
	now = now.UTC().Truncate(time.Second)
	return Session{
		ID: rand.Text(), Caller: c, CSRF: rand.Text(), Version: version,
		IssuedAt: now, ExpiresAt: now.Add(SessionTTL),
	}
}

// validSessionID tells whether id has the shape of [NewSession]'s: it becomes
// part of a document's path.
func validSessionID(id string) bool {
	if len(id) != 26 {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}
