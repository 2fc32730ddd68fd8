package wire

import "time"

// Webhook is an app's deploy webhook.
type Webhook struct {
	Enabled bool    `json:"enabled"`
	URL     string  `json:"url" kind:"url"` // URL for calls from pipelines and git providers
	Token   *string `json:"token"`          // webhook token; null while disabled, and for viewers and service tokens

	Issuers []string `json:"issuers" kind:"issuers"` // token issuers that apps of this installation can trust
}

// Trust allows pipelines to deploy an app without a secret. They need a token from the issuer for
// the audience, and all claims must match.
type Trust struct {
	ID       string `json:"id" kind:"trust_id"`
	Provider string `json:"provider" kind:"provider"`
	Issuer   string `json:"issuer" kind:"issuer"`
	Audience string `json:"audience"`

	Claims map[string]string `json:"claims"` // patterns by claim name; * matches any text without "/", ** any text

	// A trust is open if event_name (on GitLab: pipeline_source or ref_protected) is missing or
	// "*", or if the subject contains no owner.
	Open bool `json:"open"` // true if pull requests, other people's code or unprotected branches can deploy the app

	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
}

// AddTrust is the body of POST …/webhook/trusts.
type AddTrust struct {
	Provider string `json:"provider,omitempty" kind:"provider"` // CI provider; default other
	Issuer   string `json:"issuer,omitempty" kind:"issuer"`     // token issuer; default: the provider's public service
	Audience string `json:"audience,omitempty"`                 // audience of the tokens; default: the URL of the webhook

	// Claims always include the provider's restrictions, unless they set them: event_name on GitHub
	// and Forgejo, pipeline_source and ref_protected on GitLab. "*" removes one of these.
	Claims map[string]string `json:"claims"` // patterns by claim name, in addition to the provider's default restrictions
}

// WebhookCall is the body of a CI pipeline's POST to the webhook. Unknown fields are ignored. An
// event of a git provider has the provider's own body instead.
type WebhookCall struct {
	Image  *string `json:"image,omitempty" kind:"image"`   // image to deploy; required for image apps, rejected for git apps
	Commit *string `json:"commit,omitempty" kind:"commit"` // git commit, shown in the history; the commit to build for git apps
}

// WebhookStatus is the status of the work that a call started. It is the response to the call
// itself and to GET requests for its status_url with the same token.
type WebhookStatus struct {
	Status    string  `json:"status" kind:"hook_status"` // state of the work; deployed means live, in the response to a call that waited
	Build     Ordinal `json:"build" kind:"ordinal"`      // build of a git app
	Revision  Ordinal `json:"revision" kind:"ordinal"`   // deployed revision; null before the deployment
	Image     Text    `json:"image"`
	Commit    string  `json:"commit"`                // commit in the call; "" if none: a build then uses the head of the branch
	Message   Text    `json:"message"`               // reason for a failure, or a note
	StatusURL string  `json:"status_url" kind:"url"` // URL that returns the current status; requires the webhook token
}

// The statuses of a call.
const (
	HookBuilding   = "building"
	HookRollingOut = "rolling_out"
	HookLive       = "live"
	HookDeployed   = "deployed" // live, in the response to a call that waited
	HookFailed     = "failed"
	HookSuperseded = "superseded"
)

// HookStatuses returns all statuses of a call.
func HookStatuses() []string {
	return []string{HookBuilding, HookRollingOut, HookLive, HookDeployed, HookFailed, HookSuperseded}
}

// WebhookIgnored is the response to an event that changes nothing.
type WebhookIgnored struct {
	Status string `json:"status" kind:"ignored"`
	Reason string `json:"reason"`
}

// WebhookPong is the response to a provider's ping.
type WebhookPong struct {
	Status string `json:"status" kind:"pong"`
}

// WebhookDelivery is a call of an app's webhook and its result. Unauthenticated and excessive
// calls are grouped: count is the number of calls from at to last_at.
type WebhookDelivery struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	LastAt    time.Time `json:"last_at"` // time of the latest call of a group; otherwise as at
	Count     int       `json:"count" kind:"count"`
	Result    string    `json:"result" kind:"hook_result"`
	Code      Text      `json:"code"`                    // problem code of a rejected call
	Reason    Text      `json:"reason"`                  // reason why the call was ignored
	Event     Text      `json:"event"`                   // git provider's name of the event; null for calls of pipelines
	Revision  Ordinal   `json:"revision" kind:"ordinal"` // revision that the call deployed
	Build     Ordinal   `json:"build" kind:"ordinal"`    // build that the call requested
	Commit    Text      `json:"commit"`
	RequestID Text      `json:"request_id"` // request ID; of the latest call in a group
	Delivery  Text      `json:"delivery"`   // ID that the sender gave the call
}

// WebhookTest is the result of a ping to an app's webhook.
type WebhookTest struct {
	Result     string  `json:"result" kind:"hook_test"`   // result of the ping: the response was pong, another response (refused), or missing (unreachable)
	Status     Ordinal `json:"status" kind:"http_status"` // HTTP status of the response; null if there was none
	Message    string  `json:"message"`
	RequestID  string  `json:"request_id"` // request ID of the ping
	DurationMS int64   `json:"duration_ms" kind:"count"`
}

// The results of a test.
const (
	HookTestPong        = "pong"
	HookTestRefused     = "refused"     // another response was received
	HookTestUnreachable = "unreachable" // no response was received
)

// HookTests returns all results of a test.
func HookTests() []string { return []string{HookTestPong, HookTestRefused, HookTestUnreachable} }
