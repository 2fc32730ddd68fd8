package wire

// Webhook is an app's deploy webhook as the management API shows it.
type Webhook struct {
	Enabled bool    `json:"enabled"`
	URL     string  `json:"url"`
	Token   *string `json:"token"` // null while disabled, and for who may not deploy
}

// WebhookCall is the body of a CI pipeline's POST to the webhook. What else it holds is
// ignored.
type WebhookCall struct {
	Image  *string `json:"image,omitempty"`
	Commit *string `json:"commit,omitempty"`
}

// WebhookStatus says how far what a call has begun is: it answers the call itself, and
// every GET of its StatusURL with the same token.
type WebhookStatus struct {
	Status    string `json:"status"`             // see below
	Build     int64  `json:"build,omitempty"`    // of a git app
	Revision  int64  `json:"revision,omitempty"` // once there is one
	Image     string `json:"image,omitempty"`
	Commit    string `json:"commit"`            // "" where the call named none; a build then takes the head of the branch
	Message   string `json:"message,omitempty"` // why it failed, or what else there is to say
	StatusURL string `json:"status_url"`
}

// The statuses of a call beside those of a revision, "rolling_out" and "live" among them.
const (
	HookBuilding   = "building"
	HookDeployed   = "deployed" // live, in the answer of a call that waited
	HookFailed     = "failed"
	HookSuperseded = "superseded"
)

// WebhookIgnored answers an event that changes nothing.
type WebhookIgnored struct {
	Status string `json:"status"` // "ignored"
	Reason string `json:"reason"`
}

// WebhookPong answers a provider's ping.
type WebhookPong struct {
	Status string `json:"status"` // "pong"
}
