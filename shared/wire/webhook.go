package wire

// Webhook is an app's deploy webhook as the management API shows it.
type Webhook struct {
	Enabled bool    `json:"enabled"`
	URL     string  `json:"url"`
	Token   *string `json:"token"` // null while disabled, and for who may not deploy
}

// WebhookCall is the body of a CI pipeline's POST to the webhook.
type WebhookCall struct {
	Image  *string `json:"image,omitempty"`
	Commit *string `json:"commit,omitempty"`
}

// WebhookDeployed answers a call that deployed an image.
type WebhookDeployed struct {
	Status   string `json:"status"` // "deployed"
	Revision int64  `json:"revision"`
	Image    string `json:"image"`
	Commit   string `json:"commit"`
}

// WebhookBuilding answers a call that asked for a build.
type WebhookBuilding struct {
	Status string `json:"status"` // "building"
	Build  int64  `json:"build"`
	Commit string `json:"commit"` // "" builds the head of the branch
}

// WebhookIgnored answers an event that changes nothing.
type WebhookIgnored struct {
	Status string `json:"status"` // "ignored"
	Reason string `json:"reason"`
}

// WebhookPong answers a provider's ping.
type WebhookPong struct {
	Status string `json:"status"` // "pong"
}
