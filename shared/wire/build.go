package wire

import "time"

// Build is one build of a git app (promise D8).
type Build struct {
	Build       int64      `json:"build" kind:"ordinal"` // 1 and up within the app
	Commit      string     `json:"commit,omitempty"`     // what is built; left out until it is known
	GitSource   GitSource  `json:"git_source"`
	Actor       string     `json:"actor"`
	Status      string     `json:"status" kind:"build_status"`
	Message     string     `json:"message,omitempty"` // why it failed, or was superseded
	Image       string     `json:"image,omitempty"`
	Digest      string     `json:"digest,omitempty" kind:"digest"`
	Revision    int64      `json:"revision,omitempty" kind:"ordinal"` // that deployed it
	RequestedAt time.Time  `json:"requested_at"`
	FinishedAt  *time.Time `json:"finished_at"`
}

// RequestBuild asks for a build; without a commit of the branch's head.
type RequestBuild struct {
	Commit *string `json:"commit,omitempty" kind:"commit"`
}
