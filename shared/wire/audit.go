package wire

import (
	"encoding/json"
	"time"
)

// AuditRecord is one change, as the audit log holds it: never a secret.
type AuditRecord struct {
	ID            string          `json:"id"`
	At            time.Time       `json:"at"`
	Actor         AuditActor      `json:"actor"`
	ClientAddress string          `json:"client_address"` // "" when the change came from inside
	RequestID     string          `json:"request_id"`
	Action        string          `json:"action" kind:"action"`   // what was done to which noun
	Outcome       string          `json:"outcome" kind:"outcome"` // requested when the end is not known
	Project       string          `json:"project"`                // "" is the installation
	Resource      string          `json:"resource"`
	Old           json.RawMessage `json:"old" kind:"object"` // an object of the fields that differ; null when there was nothing
	New           json.RawMessage `json:"new" kind:"object"` // the same afterwards
}

// AuditActor is who made a change.
type AuditActor struct {
	Kind string `json:"kind" kind:"actor_kind"`
	Name string `json:"name"`
}

// Activity is something that happened in an environment: a change, with what has become of
// it, or calls of a webhook that changed nothing. The address that it came from is "" to who
// is no owner.
type Activity struct {
	AuditRecord
	KeyName Text    `json:"key_name" kind:"key_name"`  // of the key that it is about, as it is called now
	Status  Text    `json:"status" kind:"work_status"` // of the deployment or the build that it began, as it is now; or what came of the calls
	Message Text    `json:"message"`                   // why that failed, or changed nothing
	Calls   Ordinal `json:"calls" kind:"ordinal"`      // how many calls of a webhook it stands for
}
