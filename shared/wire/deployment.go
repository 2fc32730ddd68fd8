package wire

import "time"

// Deployment is one revision of an app (specification section 2.7; decisions
// section 7).
type Deployment struct {
	Revision       int64     `json:"revision"`
	Image          string    `json:"image"`
	Digest         string    `json:"digest,omitempty"`
	NoDigest       string    `json:"no_digest,omitempty"` // why there is none
	Commit         string    `json:"commit,omitempty"`
	Trigger        string    `json:"trigger"` // webhook, manual, promotion, rollback
	Actor          string    `json:"actor"`
	SourceRevision int64     `json:"source_revision,omitempty"` // what a rollback or promotion copied
	Status         string    `json:"status"`                    // rolling_out, live, failed, superseded
	Message        string    `json:"message,omitempty"`
	DeployedAt     time.Time `json:"deployed_at"`
	Current        bool      `json:"current"`
}

// CreateDeployment is the body of POST …/deployments. image is required.
type CreateDeployment struct {
	Image *string `json:"image,omitempty"`
}

// Rollback is the body of POST …/rollback, which may be left out.
type Rollback struct {
	Revision *int64 `json:"revision,omitempty"` // absent is the last one before the current that was once live
}

// Promote is the body of POST …/promote. from_environment is required.
type Promote struct {
	FromEnvironment *string `json:"from_environment,omitempty"`
	Revision        *int64  `json:"revision,omitempty"` // absent is what rolls out there, or else what is live
}
