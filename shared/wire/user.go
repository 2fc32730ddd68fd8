package wire

import "time"

// User is a user.
type User struct {
	Username   string     `json:"username" kind:"username"`
	Admin      bool       `json:"admin"`                   // true for an admin, who owns all projects and manages users
	State      string     `json:"state" kind:"user_state"` // state of the user; a deactivated user cannot sign in
	LastSignIn *time.Time `json:"last_sign_in"`            // time of the last sign-in; null if never. The stored time can be up to 5 minutes before the last sign-in
}

// CreateUser is the body of POST /users.
type CreateUser struct {
	Username *string `json:"username,omitempty" required:"true" kind:"username"`
	Password *string `json:"password,omitempty" required:"true" kind:"password"`
	Admin    bool    `json:"admin,omitempty"`
}

// ChangePassword is the body of PUT /users/{username}/password. current_password is required
// unless an admin changes another user's password.
type ChangePassword struct {
	CurrentPassword *string `json:"current_password,omitempty"`
	Password        *string `json:"password,omitempty" required:"true" kind:"password"`
}

// UpdateUser is the body of PATCH /users/{username}.
type UpdateUser struct {
	State Optional[string] `json:"state,omitzero" nullable:"false" kind:"user_state"` // new state; deactivation ends all sessions
	Admin Optional[bool]   `json:"admin,omitzero" nullable:"false"`                   // true to grant admin rights, false to revoke them
}

// UpdatedUser is the response to PATCH /users/{username}.
type UpdatedUser struct {
	User
	RemainingTokens
}

// RemainingTokens lists the service tokens that a user created and that stay valid. They belong to
// their projects.
type RemainingTokens struct {
	TokenCount *int             `json:"token_count" kind:"count"` // number of tokens; null if they could not be read
	Tokens     []RemainingToken `json:"tokens"`                   // first 100 tokens by ID
}

// RemainingToken is a valid service token that a user created.
type RemainingToken struct {
	SessionToken
	ExpiresAt time.Time `json:"expires_at"`
}
