package wire

import "time"

// SignIn is the body of POST /session.
type SignIn struct {
	Username *string `json:"username,omitempty" required:"true"`
	Password *string `json:"password,omitempty" required:"true"`
	Device   *string `json:"device,omitempty"` // device token of the last sign-in from this device
}

// Session is the response to GET /session.
type Session struct {
	CSRFToken string    `json:"csrf_token"` // value for X-CSRF-Token in changes with the session cookie
	ExpiresAt time.Time `json:"expires_at"`
	User      Caller    `json:"user"`

	ServiceToken *SessionToken `json:"service_token"` // service token of the request; null for a user
}

// Caller is the user or service token of a session.
type Caller struct {
	Username string `json:"username" kind:"caller"` // username, or "token:" and the name of a service token
	Admin    bool   `json:"admin"`
}

// SessionToken identifies a service token.
type SessionToken struct {
	ID      string `json:"id" kind:"token_id"`
	Name    string `json:"name" kind:"token_name"`
	Project string `json:"project" kind:"project"` // only project that the token can access
	Role    string `json:"role" kind:"role"`
}

// OpenedSession is the response to POST /session.
type OpenedSession struct {
	Session
	Token  string `json:"token"`  // token for Authorization: Bearer, shown only once
	Device string `json:"device"` // device token for the next sign-in; wrong passwords from other devices do not block it
}
