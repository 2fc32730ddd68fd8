package wire

import "time"

// Deployment is one revision of an app (promise D1).
type Deployment struct {
	Revision          int64     `json:"revision" kind:"ordinal"` // 1 and up within the app
	Image             string    `json:"image"`                   // as it was asked for, with its tag
	Digest            Text      `json:"digest" kind:"digest"`
	NoDigest          Text      `json:"no_digest"` // why there is none
	Commit            Text      `json:"commit"`    // of git, as the pipeline told it
	Trigger           string    `json:"trigger" kind:"trigger"`
	Actor             string    `json:"actor"`
	SourceRevision    Ordinal   `json:"source_revision" kind:"ordinal"`        // what a rollback or promotion copied
	SourceEnvironment Text      `json:"source_environment" kind:"environment"` // that a promotion copied it from
	Status            string    `json:"status" kind:"deploy_status"`
	Message           Text      `json:"message"` // why the status is not live
	DeployedAt        time.Time `json:"deployed_at"`
	Current           bool      `json:"current"` // the newest revision is what the app is to run

	ReadyAt *time.Time `json:"ready_at"` // when one of its pods was first ready; null if none was
}

// CreateDeployment is the body of POST …/deployments. image is required.
type CreateDeployment struct {
	Image *string `json:"image,omitempty" required:"true" kind:"image"`
}

// Rollback is the body of POST …/rollback, which may be left out.
type Rollback struct {
	Revision *int64 `json:"revision,omitempty" kind:"number"` // if absent, the last earlier revision that ever had a ready pod, or else the nearest that did not fail
}

// Promote is the body of POST …/promote. from_environment is required.
type Promote struct {
	FromEnvironment *string `json:"from_environment,omitempty" required:"true" kind:"environment"`
	Revision        *int64  `json:"revision,omitempty" kind:"number"` // if absent, the newest revision there that ever had a ready pod
}
