package wire

import "time"

// SignIn is the body of POST /session.
type SignIn struct {
	Username *string `json:"username,omitempty"`
	Password *string `json:"password,omitempty"`
}

// User is who a session belongs to.
type User struct {
	Username string `json:"username"`
	Admin    bool   `json:"admin"`
}

// Session is the answer to POST and GET /session. Token comes with POST only.
type Session struct {
	Token     string    `json:"token,omitempty"`
	CSRFToken string    `json:"csrf_token"` // send as X-CSRF-Token with changes made by cookie
	ExpiresAt time.Time `json:"expires_at"`
	User      User      `json:"user"`
}
