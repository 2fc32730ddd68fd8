package wire

import "time"

// Key is an API key without its hash and secret (promise K3).
type Key struct {
	ID                      string     `json:"id" kind:"key_id"`
	Prefix                  string     `json:"prefix" kind:"prefix"` // public, stable identifier of the key; the app receives it with each request
	Project                 string     `json:"project" kind:"project"`
	Environment             string     `json:"environment" kind:"environment"`
	Plan                    string     `json:"plan" kind:"plan_id"`
	Name                    string     `json:"name" kind:"key_name"`     // name of the key; "" if unnamed
	Apps                    []string   `json:"apps" kind:"scope"`        // apps in the key's scope; empty if scope is all or none
	Scope                   string     `json:"scope" kind:"scope_kind"`  // scope of the key: all apps of the environment, those in apps, or none because those were deleted
	Tags                    []string   `json:"tags" kind:"tags"`         // labels of the key for lists and bulk changes, sorted; apps do not receive them
	Status                  string     `json:"status" kind:"key_status"` // status of the key; expired once expires_at has passed
	ExpiresAt               *time.Time `json:"expires_at"`               // expiry of the key; null if it never expires
	CreatedAt               time.Time  `json:"created_at"`
	CreatedBy               string     `json:"created_by"`
	PreviousSecretExpiresAt *time.Time `json:"previous_secret_expires_at"` // time until which the previous secret is valid; null if there is none
	RevokedAt               *time.Time `json:"revoked_at"`                 // time of the revocation; null if the key is not revoked
	RevokedBy               *string    `json:"revoked_by"`                 // caller that revoked the key; null if it is not revoked or the caller is unknown
	LastSeen                *string    `json:"last_seen" kind:"day"`       // last day with requests; null if no day is stored
	Leak                    *KeyLeak   `json:"leak"`                       // latest leak report; null if there is none
	Usage                   *KeyUsage  `json:"usage"`                      // recent usage; null in the response to a change if the counts cannot be read

	Effect
}

// OwnKey contains the limits and the usage of a key, for the client that has the key (promise G17).
type OwnKey struct {
	Prefix      string     `json:"prefix" kind:"prefix"`
	Name        string     `json:"name" kind:"key_name"` // name of the key; "" if unnamed
	Environment string     `json:"environment" kind:"environment"`
	Apps        []string   `json:"apps" kind:"scope"`       // apps in the key's scope; empty if scope is all or none
	Scope       string     `json:"scope" kind:"scope_kind"` // scope of the key: all apps of the environment, those in apps, or none because those were deleted
	Plan        string     `json:"plan" kind:"plan_id"`
	PlanName    string     `json:"plan_name" kind:"plan_name"`
	Rate        float64    `json:"rate" kind:"rate"`           // requests per second
	Burst       int64      `json:"burst" kind:"burst"`         // maximum number of requests at once
	Quota       *int64     `json:"quota" kind:"quota"`         // requests per period; null for no quota
	QuotaPeriod *string    `json:"quota_period" kind:"period"` // UTC calendar period, weeks from Monday; null without a quota
	Used        *int64     `json:"used" kind:"count"`          // requests used in the current period, as known to the responding replica; null without a quota
	Remaining   *int64     `json:"remaining" kind:"count"`     // rest of the quota in the current period; null without a quota
	ResetsAt    *time.Time `json:"resets_at"`                  // end of the period; null without a quota
	ExpiresAt   *time.Time `json:"expires_at"`                 // expiry of the key; null if it never expires
}

// IssuedKey is a key with its full key, which only the response to a creation or rotation contains.
type IssuedKey struct {
	Key
	FullKey string `json:"key" kind:"full_key"` // full key, shown only once
}

// CreateKey is the body of POST …/api-keys.
type CreateKey struct {
	Plan      *string  `json:"plan,omitempty" required:"true" kind:"plan_id"`
	Name      string   `json:"name,omitempty" kind:"key_name"` // name that the app receives with each request
	Apps      []string `json:"apps,omitempty" kind:"scope"`    // apps in the key's scope; empty or absent for all apps of the environment
	Tags      []string `json:"tags,omitempty" kind:"tags"`     // labels for lists and bulk changes
	ExpiresAt *string  `json:"expires_at,omitempty" kind:"time"`
}

// KeyList is a page of a list of keys.
type KeyList struct {
	List[Key]

	Total *int `json:"total"` // number of keys on all pages; null on later pages, with the filters search, app, tag, unused_for and status active or expired, and if it is not known
}

// KeyStatuses returns all statuses of keys.
func KeyStatuses() []string { return []string{"active", "disabled", "revoked", "expired"} }

// The sort orders of a list of keys, in addition to that of IDs.
const (
	SortName     = "name"      // regardless of case; a key without a name has its prefix as name
	SortLastSeen = "last_seen" // the most recently used keys first
)

// KeySorts returns all sort orders of a list of keys.
func KeySorts() []string { return []string{"id", SortName, SortLastSeen} }

// FindKey is the body of POST …/api-keys/find.
type FindKey struct {
	Key *string `json:"key,omitempty" required:"true" kind:"full_key"` // full key to look up
}

// FoundKey is the key that a full key belongs to.
type FoundKey struct {
	Key    Key    `json:"key"`
	Secret string `json:"secret" kind:"secret_state"` // state of the secret in the full key: previous is valid until previous_secret_expires_at, unknown is not valid
}

// The states of a full key's secret.
const (
	SecretCurrent  = "current"
	SecretPrevious = "previous" // valid until previous_secret_expires_at
	SecretUnknown  = "unknown"  // no longer or never valid
)

// SecretStates returns all states of a secret.
func SecretStates() []string { return []string{SecretCurrent, SecretPrevious, SecretUnknown} }

// UpdateKey is the body of PATCH …/api-keys/{key_id}.
type UpdateKey struct {
	Name      Optional[string]   `json:"name,omitzero" kind:"key_name"` // new name; null removes the name
	Apps      Optional[[]string] `json:"apps,omitzero" kind:"scope"`    // new scope; null or [] for all apps of the environment
	Tags      Optional[[]string] `json:"tags,omitzero" kind:"tags"`     // new tags; null or [] for none
	Plan      Optional[string]   `json:"plan,omitzero" nullable:"false" kind:"plan_id"`
	ExpiresAt Optional[string]   `json:"expires_at,omitzero" kind:"time"` // new expiry; null for none
	Status    Optional[string]   `json:"status,omitzero" nullable:"false" kind:"usable_status"`
}

// BulkKeys is the body of POST …/api-keys/bulk.
type BulkKeys struct {
	Keys   *[]string  `json:"keys,omitempty" required:"true" kind:"key_ids"` // IDs of the keys to change
	Change *KeyChange `json:"change,omitempty" required:"true"`
	DryRun bool       `json:"dry_run,omitempty"` // report the results without changing anything
}

// KeyChange is a change of many keys. It contains exactly one field.
type KeyChange struct {
	Plan       *string          `json:"plan,omitempty" kind:"plan_id"`
	Status     *string          `json:"status,omitempty" kind:"usable_status"`
	ExpiresAt  Optional[string] `json:"expires_at,omitzero" kind:"time"`        // new expiry; null for none
	AddTags    []string         `json:"add_tags,omitempty" kind:"some_tags"`    // tags to add; a key has at most 10
	RemoveTags []string         `json:"remove_tags,omitempty" kind:"some_tags"` // tags to remove
	Revoke     bool             `json:"revoke,omitempty"`                       // true revokes the keys permanently
}

// BulkResult contains the result of a bulk change for each key, in the order of the request.
type BulkResult struct {
	Changed   int         `json:"changed" kind:"number"`   // number of keys that were changed, or would be by a dry run
	Unchanged int         `json:"unchanged" kind:"number"` // number of keys that already had the new value
	Failed    int         `json:"failed" kind:"number"`
	Results   []KeyResult `json:"results"`

	Effect
}

// ChangedKeys returns the IDs of the changed keys.
func (r BulkResult) ChangedKeys() (ids []string) {
	for _, k := range r.Results {
		if k.Outcome == KeyChanged {
			ids = append(ids, k.KeyID)
		}
	}
	return ids
}

// KeyResult is the result of a bulk change for a key.
type KeyResult struct {
	KeyID   string    `json:"key_id"`                 // ID in the request
	Name    string    `json:"name" kind:"key_name"`   // name of the key; "" if unnamed or if the key does not exist
	Outcome string    `json:"outcome" kind:"changed"` // result for this key; the other keys do not depend on it
	Code    Text      `json:"code"`                   // problem code of a failure; null for other outcomes
	Message Text      `json:"message"`                // explanation of a failure, for people; null for other outcomes
	Before  *KeyState `json:"before"`                 // state before the change; null if the key does not exist
	After   *KeyState `json:"after"`                  // state after the change; null for a failure
}

// KeyState contains the fields of a key that a bulk change can set.
type KeyState struct {
	Plan      string     `json:"plan" kind:"plan_id"`
	Status    string     `json:"status" kind:"key_status"`
	ExpiresAt *time.Time `json:"expires_at"` // expiry of the key; null if it never expires
	Tags      []string   `json:"tags" kind:"tags"`
}

// The outcomes of a bulk change for a key.
const (
	KeyChanged   = "changed"
	KeyUnchanged = "unchanged"
	KeyFailed    = "failed"
)

// KeyOutcomes returns all outcomes.
func KeyOutcomes() []string { return []string{KeyChanged, KeyUnchanged, KeyFailed} }

// MaxBulk is the maximum number of keys in a bulk change.
const MaxBulk = 500

// RotateKey is the optional body of POST …/rotate.
type RotateKey struct {
	Grace *string `json:"grace,omitempty" kind:"grace"` // duration, from 0s to 720h, for which the previous secret stays valid
}

// InForce reports whether a change is in force: no checker can allow a request by the previous
// version (promise F7).
type InForce struct {
	Change     string           `json:"change"`     // ID for GET …/changes/{change}; "" if nothing was changed
	Everywhere bool             `json:"everywhere"` // false if not confirmed yet
	At         *time.Time       `json:"at"`         // time at which the change was confirmed everywhere; null before that
	Replicas   []ReplicaInForce `json:"replicas"`   // checkers that may allow requests
}

// ReplicaInForce is the state of a change at a checker.
type ReplicaInForce struct {
	Replica    string     `json:"replica"`
	State      string     `json:"state" kind:"replica_state"` // state of the checker: it has applied the change, denies all requests, or has not confirmed the change
	AfterMS    *int64     `json:"after_ms"`                   // time from the commit to the checker's confirmation, in milliseconds; null unless the call waited
	DeniesFrom *time.Time `json:"denies_from"`                // time from which an unconfirmed checker denies all requests, unless it applies the change first
}

// Effect is the part of a response that reports whether the change is in force.
type Effect struct {
	InForce *InForce `json:"in_force"` // whether the change is in force; null unless the request has Prefer: wait
}

// Force returns the report, or nil if the caller did not request it.
func (e Effect) Force() *InForce { return e.InForce }

// Effective sets the report.
func (e *Effect) Effective(f InForce) { e.InForce = &f }

// Effective sets f.
func (f *InForce) Effective(to InForce) { *f = to }

// ReleasedQuota is the result of releasing the quota that lost checkers held.
type ReleasedQuota struct {
	Released int64 `json:"released" kind:"count"` // number of requests that are available again
	Held     int64 `json:"held" kind:"count"`     // number of requests that checkers still hold, including spent ones
}
