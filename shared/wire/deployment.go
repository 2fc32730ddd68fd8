package wire

import "time"

// Deployment is a revision of an app (promise D1).
type Deployment struct {
	Revision          int64     `json:"revision" kind:"ordinal"` // number of the revision within the app, from 1
	Image             string    `json:"image"`                   // image as requested, with its tag
	Digest            Text      `json:"digest" kind:"digest"`
	NoDigest          Text      `json:"no_digest"` // reason why digest is null
	Commit            Text      `json:"commit"`    // git commit that the pipeline sent
	Trigger           string    `json:"trigger" kind:"trigger"`
	Actor             string    `json:"actor"`
	SourceRevision    Ordinal   `json:"source_revision" kind:"ordinal"`        // revision that a rollback or promotion copied
	SourceEnvironment Text      `json:"source_environment" kind:"environment"` // environment from which a promotion copied the revision
	Status            string    `json:"status" kind:"deploy_status"`
	Message           Text      `json:"message"` // reason why the status is not live
	DeployedAt        time.Time `json:"deployed_at"`
	Current           bool      `json:"current"` // true for the newest revision

	ReadyAt *time.Time `json:"ready_at"` // time at which a pod was first ready; null if none was
}

// CreateDeployment is the body of POST …/deployments.
type CreateDeployment struct {
	Image *string `json:"image,omitempty" required:"true" kind:"image"`
}

// Rollback is the optional body of POST …/rollback.
type Rollback struct {
	Revision *int64 `json:"revision,omitempty" kind:"number"` // revision to deploy; default: the newest earlier revision that ever had a ready pod, or else the newest that did not fail
}

// Promote is the body of POST …/promote.
type Promote struct {
	FromEnvironment *string `json:"from_environment,omitempty" required:"true" kind:"environment"`
	Revision        *int64  `json:"revision,omitempty" kind:"number"` // revision to deploy; default: the newest revision in from_environment that ever had a ready pod
}
