package wire

import "time"

// Token is a service token without its hash and secret (promise S9).
type Token struct {
	ID         string     `json:"id" kind:"token_id"`
	Project    string     `json:"project" kind:"project"`
	Name       string     `json:"name" kind:"token_name"`
	Role       string     `json:"role" kind:"role"`
	Status     string     `json:"status" kind:"token_status"` // status of the token; expired once expires_at has passed
	ExpiresAt  time.Time  `json:"expires_at"`
	CreatedAt  time.Time  `json:"created_at"`
	CreatedBy  string     `json:"created_by"`
	LastUsedAt *time.Time `json:"last_used_at"` // time of the last use, up to 5 minutes late; null if never used
}

// IssuedToken is a service token with its full token. Only the response to its creation contains
// it.
type IssuedToken struct {
	Token
	FullToken string `json:"token" kind:"full_token"` // full token for Authorization: Bearer, shown only once
}

// CreateToken is the body of POST …/tokens.
type CreateToken struct {
	Name      *string `json:"name,omitempty" required:"true" kind:"token_name"` // name of the token, unique in the project
	Role      *string `json:"role,omitempty" required:"true" kind:"role"`
	ExpiresAt *string `json:"expires_at,omitempty" kind:"time"` // expiry, at most 366 days from now; default 90 days
}

// RevokedToken lists the API keys that a revoked service token created or rotated. They stay
// valid. Revoked keys are not listed.
type RevokedToken struct {
	KeyCount *int       `json:"key_count" kind:"count"` // number of keys; null if they could not be read (see the audit log)
	Keys     []TokenKey `json:"keys"`                   // first 100 keys by ID
}

// TokenKey is an API key that a service token created or rotated.
type TokenKey struct {
	NamedKey
	Environment string `json:"environment" kind:"environment"`
}
