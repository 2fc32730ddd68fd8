package wire

import "time"

// Key is an API key; never its hash, never its secret (decisions section 3).
type Key struct {
	ID                      string     `json:"id"` // "key-ab12cd34"
	Prefix                  string     `json:"prefix"`
	Project                 string     `json:"project"`
	Environment             string     `json:"environment"`
	Plan                    string     `json:"plan"`   // a plan's id
	Name                    string     `json:"name"`   // "" is none
	Apps                    []string   `json:"apps"`   // [] is every app of the environment
	Status                  string     `json:"status"` // active, disabled, revoked; expired once expires_at has passed
	ExpiresAt               *time.Time `json:"expires_at"`
	CreatedAt               time.Time  `json:"created_at"`
	CreatedBy               string     `json:"created_by"`
	PreviousSecretExpiresAt *time.Time `json:"previous_secret_expires_at"`
	LastSeen                *string    `json:"last_seen"` // the last kept day with any traffic, "2026-03-14"
}

// IssuedKey is a key together with its full key: the answer to creation and to
// rotation, this once.
type IssuedKey struct {
	Key
	FullKey string `json:"key"`
}

// CreateKey is the body of POST …/api-keys. plan is required.
type CreateKey struct {
	Plan      *string  `json:"plan,omitempty"`
	Name      string   `json:"name,omitempty"`
	Apps      []string `json:"apps,omitempty"`
	ExpiresAt *string  `json:"expires_at,omitempty"` // RFC 3339
}

// UpdateKey is the body of PATCH …/api-keys/{key_id}.
type UpdateKey struct {
	Name      Optional[string]   `json:"name,omitzero"`
	Apps      Optional[[]string] `json:"apps,omitzero"`
	Plan      Optional[string]   `json:"plan,omitzero"`
	ExpiresAt Optional[string]   `json:"expires_at,omitzero"` // null never expires
	Status    Optional[string]   `json:"status,omitzero"`     // active or disabled
}

// RotateKey is the body of POST …/rotate, which may be left out.
type RotateKey struct {
	Grace *string `json:"grace,omitempty"` // a duration such as "24h" or "90s"; default 24h
}
