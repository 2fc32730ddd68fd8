package wire

// CreateUser is the body of POST /users. username and password are required.
type CreateUser struct {
	Username *string `json:"username,omitempty" required:"true" kind:"username"`
	Password *string `json:"password,omitempty" required:"true" kind:"password"`
	Admin    bool    `json:"admin,omitempty"` // owner of every project, and manager of users
}

// ChangePassword is the body of PUT /users/{username}/password. password, the new
// one, is required; current_password too, unless an admin changes another's.
type ChangePassword struct {
	CurrentPassword *string `json:"current_password,omitempty"`
	Password        *string `json:"password,omitempty" required:"true" kind:"password"`
}
