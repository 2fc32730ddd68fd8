package wire

import "time"

// Token is a service token; never its hash, never its secret (promise S9).
type Token struct {
	ID         string     `json:"id" kind:"token_id"`
	Project    string     `json:"project" kind:"project"`
	Name       string     `json:"name" kind:"token_name"`
	Role       string     `json:"role" kind:"role"`
	Status     string     `json:"status" kind:"token_status"` // expired once expires_at has passed
	ExpiresAt  time.Time  `json:"expires_at"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	LastUsedAt *time.Time `json:"last_used_at"` // up to 5 minutes behind; null if it never was
}

// IssuedToken is a service token together with its full token: the answer to creation,
// this once.
type IssuedToken struct {
	Token
	FullToken string `json:"token" kind:"full_token"` // to send as Authorization: Bearer; nobody can show it again
}

// CreateToken is the body of POST …/tokens. name and role are required.
type CreateToken struct {
	Name      *string `json:"name,omitempty" required:"true" kind:"token_name"` // unique in the project
	Role      *string `json:"role,omitempty" required:"true" kind:"role"`
	ExpiresAt *string `json:"expires_at,omitempty" kind:"time"` // 366 days from now at most; 90 days if left out
}

// RevokedToken is the response to the revocation of a service token: the API keys that the
// token created or rotated. They stay valid, so their owners may want to rotate them.
// Revoked keys are left out.
type RevokedToken struct {
	KeyCount *int       `json:"key_count" kind:"count"` // null if the keys could not be read; the audit log has them
	Keys     []TokenKey `json:"keys"`                   // the first 100 of them, by ID
}

// TokenKey is an API key that a service token created or rotated.
type TokenKey struct {
	NamedKey
	Environment string `json:"environment" kind:"environment"`
}
