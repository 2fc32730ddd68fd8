package wire

import "time"

// KeyEvent is the data of an event about an API key: its state immediately after the event.
type KeyEvent struct {
	KeyID       string     `json:"key_id"      kind:"key_id"`
	Name        string     `json:"name"        kind:"key_name"`
	Project     string     `json:"project"     kind:"project"`
	Environment string     `json:"environment" kind:"environment"`
	Plan        string     `json:"plan"        kind:"plan_id"`
	Apps        []string   `json:"apps"        kind:"scope"`      // apps in the key's scope; empty if scope is all or none
	Scope       string     `json:"scope"       kind:"scope_kind"` // scope of the key: all apps of the environment, those in apps, or none because those were deleted
	Status      string     `json:"status"      kind:"key_status"` // status of the key; expired once expires_at has passed
	ExpiresAt   *time.Time `json:"expires_at"`                    // expiry of the key; null if it never expires

	WithinDays *int `json:"within_days" kind:"event_days"` // number of days until the expiry; only set for key.expiring events
}

// QuotaEvent is the data of an event about the used share of a key's quota. Each percentage is
// reported once per period. If both are reached between two checks, only the higher percentage is reported.
type QuotaEvent struct {
	KeyID       string    `json:"key_id"       kind:"key_id"`
	Name        string    `json:"name"         kind:"key_name"`
	Project     string    `json:"project"      kind:"project"`
	Environment string    `json:"environment"  kind:"environment"`
	Plan        string    `json:"plan"         kind:"plan_id"`
	Percent     int       `json:"percent"      kind:"event_percent"`
	Quota       int64     `json:"quota"        kind:"quota"`
	Used        int64     `json:"used"         kind:"count"` // requests used at the time of the check; can exceed the quota unless quota_mode is hard
	Period      string    `json:"quota_period" kind:"period"`
	Mode        string    `json:"quota_mode"   kind:"quota_mode"`
	ResetsAt    time.Time `json:"resets_at"`
}

// GateEvent is the data of an event about an app's gate.
type GateEvent struct {
	App         string `json:"app"         kind:"app"`
	Project     string `json:"project"     kind:"project"`
	Environment string `json:"environment" kind:"environment"`
	Host        string `json:"host"        kind:"host"`
	State       string `json:"state"       kind:"gate_state"`
}

// GatesEvent is the data of an event about all gates of the installation: they deny all requests
// because no checker can prove that its view is fresh, or they have recovered.
type GatesEvent struct {
	Checkers int       `json:"checkers" kind:"count"` // number of checker replicas
	Since    time.Time `json:"since"`                 // time at which this state was first detected
}
