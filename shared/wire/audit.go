package wire

import (
	"encoding/json"
	"time"
)

// AuditRecord is a change in the audit log. It never contains a secret.
type AuditRecord struct {
	ID            string          `json:"id"`
	At            time.Time       `json:"at"`
	Actor         AuditActor      `json:"actor"`
	ClientAddress string          `json:"client_address"` // IP address of the client; "" for internal changes
	RequestID     string          `json:"request_id"`
	Action        string          `json:"action" kind:"action"`   // resource type and operation, e.g. key.revoke
	Outcome       string          `json:"outcome" kind:"outcome"` // result of the operation; requested if the result is unknown
	Project       string          `json:"project"`                // project of the change; "" for changes to the installation
	Resource      string          `json:"resource"`
	Old           json.RawMessage `json:"old" kind:"object"` // changed fields with their previous values; null for a creation
	New           json.RawMessage `json:"new" kind:"object"` // changed fields with their new values; null for a deletion
}

// AuditActor is the caller that made a change.
type AuditActor struct {
	Kind string `json:"kind" kind:"actor_kind"`
	Name string `json:"name"`
}

// Activity is a change in an environment with its result, or a group of webhook calls that
// changed nothing. Only owners see the client address; it is "" for others.
type Activity struct {
	AuditRecord
	KeyName Text    `json:"key_name" kind:"key_name"`  // current name of the affected key
	Status  Text    `json:"status" kind:"work_status"` // current status of the deployment or build that the change started, or result of the calls
	Message Text    `json:"message"`                   // reason for a failure, or for changing nothing
	Calls   Ordinal `json:"calls" kind:"ordinal"`      // number of webhook calls in this entry
}
