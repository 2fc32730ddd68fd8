package wire

import "time"

// SignIn is the body of POST /session.
type SignIn struct {
	Username *string `json:"username,omitempty" required:"true"`
	Password *string `json:"password,omitempty" required:"true"`
	Device   *string `json:"device,omitempty"` // what the last sign-in there was answered with
}

// User is somebody who can sign in.
type User struct {
	Username string `json:"username" kind:"username"`
	Admin    bool   `json:"admin"` // owner of every project, and manager of users
}

// Session is the answer to GET /session.
type Session struct {
	CSRFToken string    `json:"csrf_token"` // send as X-CSRF-Token with changes made by cookie
	ExpiresAt time.Time `json:"expires_at"`
	User      Caller    `json:"user"`

	ServiceToken *SessionToken `json:"service_token"` // that the request came with; null where a person is signed in
}

// Caller is who a session belongs to.
type Caller struct {
	Username string `json:"username" kind:"caller"` // of a service token "token:" and its name, which no user can have
	Admin    bool   `json:"admin"`                  // owner of every project, and manager of users
}

// SessionToken is the service token that a request came with.
type SessionToken struct {
	ID      string `json:"id" kind:"token_id"`
	Name    string `json:"name" kind:"token_name"`
	Project string `json:"project" kind:"project"` // the only one that it is for
	Role    string `json:"role" kind:"role"`       // there
}

// OpenedSession is the answer to POST /session, this once with what proves the session.
type OpenedSession struct {
	Session
	Token  string `json:"token"`  // to send as Authorization: Bearer
	Device string `json:"device"` // to send with the next sign-in: others' wrong passwords do not count against it
}
