package wire

import "time"

// Webhook is an app's deploy webhook as the management API shows it.
type Webhook struct {
	Enabled bool    `json:"enabled"`
	URL     string  `json:"url" kind:"url"` // that pipelines call
	Token   *string `json:"token"`          // null while disabled, and for viewers and service tokens

	// Issuers are those whose pipelines an app may trust, as the installation's operator has
	// named them.
	Issuers []string `json:"issuers" kind:"issuers"`
}

// Trust says which pipelines deploy an app without a secret: those that bring a token of
// the issuer for the audience, whose claims all match.
type Trust struct {
	ID       string `json:"id" kind:"trust_id"`
	Provider string `json:"provider" kind:"provider"`
	Issuer   string `json:"issuer" kind:"issuer"`
	Audience string `json:"audience"`

	// Claims are patterns by claims' names: "*" is any text without "/", "**" any text.
	Claims map[string]string `json:"claims"`

	// Open reports whether the trust admits pull requests, other people's code or unprotected
	// branches: its event_name, or on GitLab its pipeline_source or ref_protected, is missing
	// or "*", or its subject names no owner.
	Open bool `json:"open"`

	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
}

// AddTrust is the body of a POST of a trust.
type AddTrust struct {
	Provider string `json:"provider,omitempty" kind:"provider"` // "" is other
	Issuer   string `json:"issuer,omitempty" kind:"issuer"`     // "" is the provider's public service
	Audience string `json:"audience,omitempty"`                 // "" is the webhook's URL

	// Claims get the provider's restrictions unless they name them: event_name on GitHub and
	// Forgejo, pipeline_source and ref_protected on GitLab. "*" opens one of these.
	Claims map[string]string `json:"claims"`
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
	Status    string  `json:"status" kind:"hook_status"`
	Build     Ordinal `json:"build" kind:"ordinal"`    // of a git app
	Revision  Ordinal `json:"revision" kind:"ordinal"` // once there is one
	Image     Text    `json:"image"`
	Commit    string  `json:"commit"`                // "" where the call named none; a build then takes the head of the branch
	Message   Text    `json:"message"`               // why it failed, or what else there is to say
	StatusURL string  `json:"status_url" kind:"url"` // tells on, to who has the webhook's token
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

// WebhookDelivery is a call of an app's webhook, and what came of it. Calls without proof,
// and those that were too many, are told of together: how many there were from At to LastAt.
type WebhookDelivery struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	LastAt    time.Time `json:"last_at"` // of several calls, the latest; else as at
	Count     int       `json:"count" kind:"count"`
	Result    string    `json:"result" kind:"hook_result"`
	Code      Text      `json:"code"`                    // why it was refused
	Reason    Text      `json:"reason"`                  // why it was ignored
	Event     Text      `json:"event"`                   // as a git provider names it; null of a pipeline's call
	Revision  Ordinal   `json:"revision" kind:"ordinal"` // that it has deployed
	Build     Ordinal   `json:"build" kind:"ordinal"`    // that it has asked for
	Commit    Text      `json:"commit"`
	RequestID Text      `json:"request_id"` // of several calls, that of the latest
	Delivery  Text      `json:"delivery"`   // what its sender calls it
}

// WebhookTest is what came of a ping that was sent to an app's webhook.
type WebhookTest struct {
	Result     string  `json:"result" kind:"hook_test"`
	Status     Ordinal `json:"status" kind:"http_status"` // of the answer; null if there was none
	Message    string  `json:"message"`
	RequestID  string  `json:"request_id"` // of the ping
	DurationMS int64   `json:"duration_ms" kind:"count"`
}

// The results of a test.
const (
	HookTestPong        = "pong"
	HookTestRefused     = "refused"     // it was answered otherwise
	HookTestUnreachable = "unreachable" // it was not answered
)

// HookTests lists the results of a test.
func HookTests() []string { return []string{HookTestPong, HookTestRefused, HookTestUnreachable} }
