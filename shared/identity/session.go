package identity

import (
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
)

// SessionTTL is how long a session lasts (promise S3).
const SessionTTL = 12 * time.Hour

// Caller is who makes a request.
type Caller struct {
	Username string // of a service token what stands in its place, e.g. "token:nightly"
	Admin    bool   // owner of every project, and manager of users
	Grant    Grant  // of a service token; zero of people
}

// Grant is what a service token may: what a role allows in one project, and nothing
// elsewhere.
type Grant struct {
	Token   servicetoken.ID
	Name    string // of the token, e.g. "nightly"
	Project string
	Role    app.Role
}

// Service tells whether the caller is a service token, and no person.
func (c Caller) Service() bool { return c.Grant != Grant{} }

// RoleIn is the caller's role in a project: admins are owners of all.
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

// Session is what a token says. A service token's has an id, a caller and its times.
type Session struct {
	ID        string // jti: 26 of [A-Z2-7], 130 random bits; or a service token's
	Caller    Caller
	CSRF      string // goes with changes made by cookie, in X-CSRF-Token
	Version   int64  // of the user's password; a change ends the session
	IssuedAt  time.Time
	ExpiresAt time.Time

	// Forgeable reports whether the request came by cookie, without the CSRF value: another
	// site's page may have caused it.
	Forgeable bool
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
