package wire

import "time"

// Key is an API key; never its hash, never its secret (promise K3).
type Key struct {
	ID                      string     `json:"id" kind:"key_id"`
	Prefix                  string     `json:"prefix" kind:"prefix"` // public, and stable: the name of the consumer towards the app
	Project                 string     `json:"project" kind:"project"`
	Environment             string     `json:"environment" kind:"environment"`
	Plan                    string     `json:"plan" kind:"plan_id"`
	Name                    string     `json:"name" kind:"key_name"`     // "" is none
	Apps                    []string   `json:"apps" kind:"scope"`        // the apps that scope names
	Scope                   string     `json:"scope" kind:"scope_kind"`  // all apps of the environment, the named apps, or none because they were deleted
	Status                  string     `json:"status" kind:"key_status"` // expired once expires_at has passed
	ExpiresAt               *time.Time `json:"expires_at"`               // null never expires
	CreatedAt               time.Time  `json:"created_at"`
	CreatedBy               string     `json:"created_by"`
	PreviousSecretExpiresAt *time.Time `json:"previous_secret_expires_at"` // until when the secret before the last rotation is good
	RevokedAt               *time.Time `json:"revoked_at"`                 // null of a key that is not
	RevokedBy               *string    `json:"revoked_by"`                 // null too where that was not kept
	LastSeen                *string    `json:"last_seen" kind:"day"`       // the last kept day with any traffic
	Leak                    *KeyLeak   `json:"leak"`                       // of the last secret of it that was found where strangers can read it; null of none
	Usage                   *KeyUsage  `json:"usage"`                      // null in the answer to a change while it cannot be read

	Effect
}

// OwnKey is a key as its holder sees it, by the key alone (promise G17).
type OwnKey struct {
	Prefix      string     `json:"prefix" kind:"prefix"`
	Name        string     `json:"name" kind:"key_name"` // "" is none
	Environment string     `json:"environment" kind:"environment"`
	Apps        []string   `json:"apps" kind:"scope"`       // the apps that scope names
	Scope       string     `json:"scope" kind:"scope_kind"` // all apps of the environment, the named apps, or none because they were deleted
	Plan        string     `json:"plan" kind:"plan_id"`
	PlanName    string     `json:"plan_name" kind:"plan_name"`
	Rate        float64    `json:"rate" kind:"rate"`           // requests per second
	Burst       int64      `json:"burst" kind:"burst"`         // requests at once
	Quota       *int64     `json:"quota" kind:"quota"`         // requests per period; null is none
	QuotaPeriod *string    `json:"quota_period" kind:"period"` // of the UTC calendar, weeks from Monday; null without a quota
	Used        *int64     `json:"used" kind:"count"`          // of the quota, in this period, as far as the replica that answers knows; null without a quota
	Remaining   *int64     `json:"remaining" kind:"count"`     // of the quota; null without one
	ResetsAt    *time.Time `json:"resets_at"`                  // when the period ends; null without a quota
	ExpiresAt   *time.Time `json:"expires_at"`                 // null never expires
}

// IssuedKey is a key together with its full key: the answer to creation and to
// rotation, this once.
type IssuedKey struct {
	Key
	FullKey string `json:"key" kind:"full_key"` // the full key, which nobody can show again
}

// CreateKey is the body of POST …/api-keys. plan is required.
type CreateKey struct {
	Plan      *string  `json:"plan,omitempty" required:"true" kind:"plan_id"`
	Name      string   `json:"name,omitempty" kind:"key_name"` // forwarded to the app
	Apps      []string `json:"apps,omitempty" kind:"scope"`    // that the key opens; every app of the environment if left out or empty
	ExpiresAt *string  `json:"expires_at,omitempty" kind:"time"`
}

// KeyStatuses are the statuses that keys are shown with.
func KeyStatuses() []string { return []string{"active", "disabled", "revoked", "expired"} }

// SortLastSeen lists the keys first that were seen last.
const SortLastSeen = "last_seen"

// KeySorts are the orders of a list of keys.
func KeySorts() []string { return []string{"id", SortLastSeen} }

// FindKey is the body of POST …/api-keys/find.
type FindKey struct {
	Key *string `json:"key,omitempty" required:"true" kind:"full_key"` // a full key
}

// FoundKey is the key that a full key belongs to.
type FoundKey struct {
	Key    Key    `json:"key"`
	Secret string `json:"secret" kind:"secret_state"` // which of the key's secrets it is
}

// What a full key's secret is to the key with its prefix.
const (
	SecretCurrent  = "current"
	SecretPrevious = "previous" // good until previous_secret_expires_at
	SecretUnknown  = "unknown"  // no longer one, or never was: nobody gets through with it
)

// SecretStates lists them.
func SecretStates() []string { return []string{SecretCurrent, SecretPrevious, SecretUnknown} }

// UpdateKey is the body of PATCH …/api-keys/{key_id}.
type UpdateKey struct {
	Name      Optional[string]   `json:"name,omitzero" kind:"key_name"` // null takes it away
	Apps      Optional[[]string] `json:"apps,omitzero" kind:"scope"`    // null or [] is every app of the environment
	Plan      Optional[string]   `json:"plan,omitzero" nullable:"false" kind:"plan_id"`
	ExpiresAt Optional[string]   `json:"expires_at,omitzero" kind:"time"` // null never expires
	Status    Optional[string]   `json:"status,omitzero" nullable:"false" kind:"usable_status"`
}

// RotateKey is the body of POST …/rotate, which may be left out.
type RotateKey struct {
	Grace *string `json:"grace,omitempty" kind:"grace"` // how long the secret before stays good
}

// InForce says whether a change is in force: whether no checker can allow a request any
// more by what was before it (promise F7).
type InForce struct {
	Change     string           `json:"change"`     // names the change, for GET …/changes/{change}; "" where nothing was changed
	Everywhere bool             `json:"everywhere"` // false is not known yet
	At         *time.Time       `json:"at"`         // when that was known; null until then
	Replicas   []ReplicaInForce `json:"replicas"`   // those that may allow anything; none is nobody
}

// ReplicaInForce is a checker's part in it.
type ReplicaInForce struct {
	Replica    string     `json:"replica"`
	State      string     `json:"state" kind:"replica_state"`
	AfterMS    *int64     `json:"after_ms"`    // from the commit until it said so, in milliseconds; of a call that waited
	DeniesFrom *time.Time `json:"denies_from"` // when one that is silent denies everything, unless it follows by then
}

// Effect is the part of an answer that says whether a change is in force. It is null
// unless the caller asked for it with Prefer: wait.
type Effect struct {
	InForce *InForce `json:"in_force"`
}

// Force is what was said; nil where nobody asked.
func (e Effect) Force() *InForce { return e.InForce }

// Effective says whether what is answered is in force.
func (e *Effect) Effective(f InForce) { e.InForce = &f }

// Effective says whether the change is in force.
func (f *InForce) Effective(to InForce) { *f = to }

// ReleasedQuota is the result of a release of what lost checkers held of a hard quota.
type ReleasedQuota struct {
	Released int64 `json:"released" kind:"count"` // requests that are available again
	Held     int64 `json:"held" kind:"count"`     // requests that checkers hold, spent ones included
}
