package wire

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
