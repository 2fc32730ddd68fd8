package identity

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
)

// SessionTTL is the duration of a session (promise S3).
const SessionTTL = 12 * time.Hour

// Caller is the user or service token that makes a request.
type Caller struct {
	Username string // or the actor of a service token, e.g. "token:nightly"
	Admin    bool   // owner of all projects, manages users
	Grant    Grant  // of a service token; zero for users
}

// Grant is the role of a service token in its project.
type Grant struct {
	Token   servicetoken.ID
	Name    string // e.g. "nightly"
	Project string
	Role    app.Role
}

// Service reports whether the caller is a service token.
func (c Caller) Service() bool { return c.Grant != Grant{} }

// RoleIn returns the caller's role in a project.
func (c Caller) RoleIn(p app.Project) app.Role {
	switch {
	case c.Admin:
		return app.Owner
	case !c.Service():
		return p.Members[c.Username]
	case c.Grant.Project == p.Name:
		return c.Grant.Role
	}
	return ""
}

// Session is an authenticated session. The session of a service token has only an ID, a caller
// and times.
type Session struct {
	ID        string // 26 of [A-Z2-7], 130 random bits; or a service token's ID
	Caller    Caller
	CSRF      string // required in X-CSRF-Token for changes with a cookie
	Version   int64  // of the user
	IssuedAt  time.Time
	ExpiresAt time.Time

	// Forgeable is true if another site may have caused the request: it has a cookie, but not the
	// CSRF value.
	Forgeable bool
}

// Token is a signed session. It prints as "[redacted]"; string(t) is the token.
type Token string

// LogValue implements [slog.LogValuer].
func (Token) LogValue() slog.Value { return slog.StringValue("[redacted]") }

func (Token) String() string { return "[redacted]" }

// GoString implements [fmt.GoStringer].
func (Token) GoString() string { return "[redacted]" }

// NewSession returns a new session. version is that of the user.
func NewSession(c Caller, version int64, now time.Time) Session {
	now = now.UTC().Truncate(time.Second)
	return Session{
		ID: rand.Text(), Caller: c, CSRF: rand.Text(), Version: version,
		IssuedAt: now, ExpiresAt: now.Add(SessionTTL),
	}
}

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
