package wire

import "time"

// KeyEvent is the data of an event about an API key: what it was right after that.
type KeyEvent struct {
	KeyID       string     `json:"key_id"      kind:"key_id"`
	Name        string     `json:"name"        kind:"key_name"`
	Project     string     `json:"project"     kind:"project"`
	Environment string     `json:"environment" kind:"environment"`
	Plan        string     `json:"plan"        kind:"plan_id"`
	Apps        []string   `json:"apps"        kind:"scope"`      // the apps that scope names
	Scope       string     `json:"scope"       kind:"scope_kind"` // all apps of the environment, the named apps, or none because they were deleted
	Status      string     `json:"status"      kind:"key_status"` // expired from the expiry on
	ExpiresAt   *time.Time `json:"expires_at"`                    // null never

	WithinDays *int `json:"within_days" kind:"event_days"` // of key.expiring; null of the others
}

// QuotaEvent is the data of an event about how far a key's quota is used up. A percentage is
// told once in a period, and only the higher one where both are reached between two looks.
type QuotaEvent struct {
	KeyID       string    `json:"key_id"       kind:"key_id"`
	Name        string    `json:"name"         kind:"key_name"`
	Project     string    `json:"project"      kind:"project"`
	Environment string    `json:"environment"  kind:"environment"`
	Plan        string    `json:"plan"         kind:"plan_id"`
	Percent     int       `json:"percent"      kind:"event_percent"`
	Quota       int64     `json:"quota"        kind:"quota"`
	Used        int64     `json:"used"         kind:"count"` // when it was seen; more than the quota is possible unless quota_mode is hard
	Period      string    `json:"quota_period" kind:"period"`
	Mode        string    `json:"quota_mode"   kind:"quota_mode"`
	ResetsAt    time.Time `json:"resets_at"`
}

// GateEvent is the data of an event about the gate of an app.
type GateEvent struct {
	App         string `json:"app"         kind:"app"`
	Project     string `json:"project"     kind:"project"`
	Environment string `json:"environment" kind:"environment"`
	Host        string `json:"host"        kind:"host"`
	State       string `json:"state"       kind:"gate_state"`
}

// GatesEvent is the data of an event about all gates of the installation at once: no checker
// can prove that its view is fresh, so every gate denies, or that is over.
type GatesEvent struct {
	Checkers int       `json:"checkers" kind:"count"` // replicas that are there
	Since    time.Time `json:"since"`                 // when it was first seen that all deny
}
