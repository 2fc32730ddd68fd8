package wire

// Webhook is an app's deploy webhook as the management API shows it.
type Webhook struct {
	Enabled bool    `json:"enabled"`
	URL     string  `json:"url" kind:"url"` // that pipelines call
	Token   *string `json:"token"`          // null while disabled, and for who may not deploy
}

// WebhookCall is the body of a CI pipeline's POST to the webhook. What else it holds is
// ignored. A git provider's event has the provider's own body.
type WebhookCall struct {
	Image  *string `json:"image,omitempty" kind:"image"`   // of image apps, which need one; a git app refuses it
	Commit *string `json:"commit,omitempty" kind:"commit"` // of git, for the history; of git apps, what is to be built
}

// WebhookStatus says how far what a call has begun is: it answers the call itself, and
// every GET of its StatusURL with the same token.
type WebhookStatus struct {
	Status    string `json:"status" kind:"hook_status"`
	Build     int64  `json:"build,omitempty" kind:"ordinal"`    // of a git app
	Revision  int64  `json:"revision,omitempty" kind:"ordinal"` // once there is one
	Image     string `json:"image,omitempty"`
	Commit    string `json:"commit"`                // "" where the call named none; a build then takes the head of the branch
	Message   string `json:"message,omitempty"`     // why it failed, or what else there is to say
	StatusURL string `json:"status_url" kind:"url"` // tells on, to who has the webhook's token
}

// The statuses of a call; those of a revision are as its history calls them.
const (
	HookBuilding   = "building"
	HookRollingOut = "rolling_out"
	HookLive       = "live"
	HookDeployed   = "deployed" // live, in the answer of a call that waited
	HookFailed     = "failed"
	HookSuperseded = "superseded"
)

// HookStatuses lists the statuses of a call.
func HookStatuses() []string {
	return []string{HookBuilding, HookRollingOut, HookLive, HookDeployed, HookFailed, HookSuperseded}
}

// WebhookIgnored answers an event that changes nothing.
type WebhookIgnored struct {
	Status string `json:"status" kind:"ignored"`
	Reason string `json:"reason"`
}

// WebhookPong answers a provider's ping.
type WebhookPong struct {
	Status string `json:"status" kind:"pong"`
}
