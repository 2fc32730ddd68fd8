package wire

import "time"

// Build is one build of a git app (promise D8).
type Build struct {
	Build       int64      `json:"build" kind:"ordinal"` // 1 and up within the app
	Commit      Text       `json:"commit"`               // what is built; null until it is known
	GitSource   GitSource  `json:"git_source"`
	Actor       string     `json:"actor"`
	Status      string     `json:"status" kind:"build_status"`
	Message     Text       `json:"message"` // why it failed, or was superseded
	Image       Text       `json:"image"`
	Digest      Text       `json:"digest" kind:"digest"`
	Revision    Ordinal    `json:"revision" kind:"ordinal"` // that deployed it
	RequestedAt time.Time  `json:"requested_at"`
	FinishedAt  *time.Time `json:"finished_at"`
}

// RequestBuild asks for a build; without a commit of the branch's head.
type RequestBuild struct {
	Commit *string `json:"commit,omitempty" kind:"commit"`
}
