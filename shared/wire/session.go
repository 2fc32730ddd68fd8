package wire

import "time"

// SignIn is the body of POST /session.
type SignIn struct {
	Username *string `json:"username,omitempty" required:"true"`
	Password *string `json:"password,omitempty" required:"true"`
	Device   *string `json:"device,omitempty"` // what the last sign-in there was answered with
}

// User is who a session belongs to.
type User struct {
	Username string `json:"username" kind:"username"`
	Admin    bool   `json:"admin"` // owner of every project, and manager of users
}

// Session is the answer to POST and GET /session. Token and Device come with POST only.
type Session struct {
	Token     string    `json:"token,omitempty"`  // to send as Authorization: Bearer
	Device    string    `json:"device,omitempty"` // to send with the next sign-in: others' wrong passwords do not count against it
	CSRFToken string    `json:"csrf_token"`       // send as X-CSRF-Token with changes made by cookie
	ExpiresAt time.Time `json:"expires_at"`
	User      User      `json:"user"`
}
