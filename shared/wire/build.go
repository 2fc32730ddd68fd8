package wire

import "time"

// Build is a build of a git app (promise D8).
type Build struct {
	Build       int64      `json:"build" kind:"ordinal"` // number of the build within the app, from 1
	Commit      Text       `json:"commit"`               // git commit; null until it is known
	GitSource   GitSource  `json:"git_source"`
	Actor       string     `json:"actor"`
	Status      string     `json:"status" kind:"build_status"`
	Message     Text       `json:"message"` // reason why the build failed or was superseded
	Image       Text       `json:"image"`
	Digest      Text       `json:"digest" kind:"digest"`
	Revision    Ordinal    `json:"revision" kind:"ordinal"` // revision that deployed the image
	RequestedAt time.Time  `json:"requested_at"`
	FinishedAt  *time.Time `json:"finished_at"`
}

// RequestBuild is the body of POST …/builds. The default commit is the head of the branch.
type RequestBuild struct {
	Commit *string `json:"commit,omitempty" kind:"commit"`
}
