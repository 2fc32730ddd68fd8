package wire

import "time"

// Build is one build of a git app (decisions section 7).
type Build struct {
	Build       int64      `json:"build"`
	Commit      string     `json:"commit,omitempty"`
	GitSource   GitSource  `json:"git_source"`
	Actor       string     `json:"actor"`
	Status      string     `json:"status"` // queued, running, succeeded, failed, superseded
	Message     string     `json:"message,omitempty"`
	Image       string     `json:"image,omitempty"`
	Digest      string     `json:"digest,omitempty"`
	Revision    int64      `json:"revision,omitempty"` // that deployed it
	RequestedAt time.Time  `json:"requested_at"`
	FinishedAt  *time.Time `json:"finished_at"`
}

// RequestBuild asks for a build; without a commit of the branch's head.
type RequestBuild struct {
	Commit *string `json:"commit"`
}
