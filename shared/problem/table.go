package problem

import (
	"net/http"
	"time"
)

// The gate's denials (promise G9).
const (
	InvalidKey      Code = "invalid_key"
	RateLimited     Code = "rate_limited"
	QuotaExhausted  Code = "quota_exhausted"
	GateUnavailable Code = "gate_unavailable"
	Misconfigured   Code = "misconfigured"
)

// What cannot be parsed, or not be taken in (promises A2, A3).
const (
	MalformedJSON        Code = "malformed_json"
	UnknownField         Code = "unknown_field"
	WrongType            Code = "wrong_type"
	InvalidDate          Code = "invalid_date"
	InvalidPage          Code = "invalid_page"
	InvalidParameter     Code = "invalid_parameter"
	UnknownParameter     Code = "unknown_parameter"
	BodyTooLarge         Code = "body_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	MethodNotAllowed     Code = "method_not_allowed"
	SecretInURL          Code = "secret_in_url"
)

// Who may do what (promises S1, S3).
const (
	Unauthenticated    Code = "unauthenticated"
	InvalidCredentials Code = "invalid_credentials"
	InvalidToken       Code = "invalid_token"
	Forbidden          Code = "forbidden"
	CSRFRequired       Code = "csrf_required"
)

// Well formed, but not acceptable.
const (
	MissingField   Code = "missing_field"
	InvalidName    Code = "invalid_name"
	InvalidRate    Code = "invalid_rate"
	InvalidBurst   Code = "invalid_burst"
	InvalidQuota   Code = "invalid_quota"
	InvalidExpiry  Code = "invalid_expiry"
	ExpiryInPast   Code = "expiry_in_past"
	InvalidGrace   Code = "invalid_grace"
	InvalidStatus  Code = "invalid_status"
	InvalidScope   Code = "invalid_scope"
	InvalidImage   Code = "invalid_image"
	InvalidHost    Code = "invalid_host"
	InvalidPort    Code = "invalid_port"
	InvalidSource  Code = "invalid_git_source"
	InvalidRole    Code = "invalid_role"
	InvalidPass    Code = "invalid_password"
	InvalidWindow  Code = "invalid_window"
	WindowExpired  Code = "window_expired"
	UnknownPlan    Code = "unknown_plan"
	UnknownUser    Code = "unknown_user"
	LastOwner      Code = "last_owner"
	UnstorableText Code = "invalid_text"
	ImageRequired  Code = "image_required"
	InvalidCommit  Code = "invalid_commit"
	InvalidTrust   Code = "invalid_trust"
	InvalidPolicy  Code = "invalid_policy"

	InvalidPreflight Code = "invalid_preflight"
)

// Conflicts and absences.
const (
	NotFound             Code = "not_found"
	AlreadyExists        Code = "already_exists"
	NamespaceTaken       Code = "namespace_taken"
	HostTaken            Code = "host_taken"
	HostReserved         Code = "host_reserved"
	TooManyHosts         Code = "too_many_host_reservations"
	NameTaken            Code = "name_taken"
	NameInScope          Code = "name_in_scope"
	PlanInUse            Code = "plan_in_use"
	NotEmpty             Code = "not_empty"
	KeyRevoked           Code = "key_revoked"
	QuotaHeld            Code = "quota_held"
	KeyExpired           Code = "key_expired"
	AlreadyIssued        Code = "already_issued"
	PreconditionFailed   Code = "precondition_failed"
	IdempotencyKeyReused Code = "idempotency_key_reused"
	TooManyKeys          Code = "too_many_keys"
	TooManyPlans         Code = "too_many_plans"
	TooManyBuilds        Code = "too_many_builds"
	TooManyTokens        Code = "too_many_tokens"
	TooManyTrusts        Code = "too_many_trusts"
	Conflict             Code = "conflict"
	GitSourceAttached    Code = "git_source_attached"
	NoGitSource          Code = "no_git_source"
	NoPreviousRevision   Code = "no_previous_revision"
	RevisionNotLive      Code = "revision_not_live"
	NamespaceNotEmpty    Code = "namespace_not_empty"
	RegistryNotAllowed   Code = "registry_not_allowed"
	InvalidRegistries    Code = "invalid_registries"
)

// The server's own troubles.
const (
	Internal    Code = "internal"
	Unavailable Code = "unavailable"
)

// Row says how one code is answered.
type Row struct {
	Code       Code
	Status     int           // HTTP status
	Message    string        // the default text, for people
	RetryAfter time.Duration // the default Retry-After; zero sends none
}

// challenges are the WWW-Authenticate of every 401, which RFC 9110 (section 15.5.2) wants. A
// challenge is a constant, so it tells no more than its code does. No registered scheme is
// for API keys or webhook tokens; ApiKey is what others call theirs. It must not be Basic,
// for which browsers ask people for a password.
//
//nolint:gochecknoglobals // a constant table; Go has no constant composite values
var challenges = map[Code]string{
	InvalidKey:         `ApiKey realm="sluice"`,
	Unauthenticated:    `Bearer realm="sluice"`,
	InvalidCredentials: `Bearer realm="sluice"`,
	InvalidToken:       `ServiceToken realm="sluice"`,
}

// Table lists every code once.
func Table() []Row { return append([]Row(nil), table[:]...) }

//nolint:gochecknoglobals // a constant table; Go has no constant composite values
var table = [...]Row{
	{InvalidKey, http.StatusUnauthorized, "A valid API key for this app is required in the X-API-Key header.", 0},
	{RateLimited, http.StatusTooManyRequests, "Too many requests; slow down.", time.Second},
	{QuotaExhausted, http.StatusTooManyRequests, "The quota of this key's usage plan is used up for the current period.", 0},
	{GateUnavailable, http.StatusServiceUnavailable, "Keys cannot be verified right now; try again shortly.", 10 * time.Second},
	{Misconfigured, http.StatusInternalServerError, "The gate in front of this app is misconfigured.", 0},

	{MalformedJSON, http.StatusBadRequest, "The request body is not valid JSON.", 0},
	{UnknownField, http.StatusBadRequest, "The request body has a field that this call does not know.", 0},
	{WrongType, http.StatusBadRequest, "A field of the request body has the wrong type.", 0},
	{InvalidDate, http.StatusBadRequest, "Dates are UTC calendar days, YYYY-MM-DD.", 0},
	{InvalidPage, http.StatusBadRequest, "page_size is 1 to 500, and page_token is one that this list returned.", 0},
	{InvalidParameter, http.StatusBadRequest, "A parameter of the request cannot be parsed.", 0},
	{UnknownParameter, http.StatusBadRequest, "The query has a parameter that this call does not know.", 0},
	{BodyTooLarge, http.StatusRequestEntityTooLarge, "The request body is too large.", 0},
	{UnsupportedMediaType, http.StatusUnsupportedMediaType, "Content-Type must be application/json.", 0},
	{MethodNotAllowed, http.StatusMethodNotAllowed, "This address does not take that method.", 0},
	{SecretInURL, http.StatusBadRequest, "The address of the request contains an API key or a service token. Rotate it: proxies may have logged the address.", 0},

	{Unauthenticated, http.StatusUnauthorized, "Sign in first.", 0},
	{InvalidCredentials, http.StatusUnauthorized, "The username or the password is wrong.", 0},
	{InvalidToken, http.StatusUnauthorized, "A valid webhook token or signature is required.", 0},
	{Forbidden, http.StatusForbidden, "Your role does not allow this.", 0},
	{CSRFRequired, http.StatusForbidden, "Changes and recorded reads made with the session cookie need the X-CSRF-Token header.", 0},

	{MissingField, http.StatusUnprocessableEntity, "A required field is missing.", 0},
	{InvalidName, http.StatusUnprocessableEntity, "The name is not acceptable.", 0},
	{InvalidRate, http.StatusUnprocessableEntity, "rate is a number of requests per second, 0.01 to 100000.", 0},
	{InvalidBurst, http.StatusUnprocessableEntity, "burst is an integer, 1 to 1000000.", 0},
	{InvalidQuota, http.StatusUnprocessableEntity, "quota is an integer, 1 to 10^12, and comes with quota_period day, week or month; quota_mode, soft or hard, goes with it.", 0},
	{InvalidExpiry, http.StatusUnprocessableEntity, "expires_at is an RFC 3339 timestamp.", 0},
	{ExpiryInPast, http.StatusUnprocessableEntity, "expires_at is in the past.", 0},
	{InvalidGrace, http.StatusUnprocessableEntity, "grace is a duration of 0s to 720h.", 0},
	{InvalidStatus, http.StatusUnprocessableEntity, "status is active or disabled.", 0},
	{InvalidScope, http.StatusUnprocessableEntity, "apps names apps of the key's own environment, each once.", 0},
	{InvalidImage, http.StatusUnprocessableEntity, "image is a full image reference with a tag or a digest.", 0},
	{InvalidHost, http.StatusUnprocessableEntity, "host is a DNS name.", 0},
	{InvalidPort, http.StatusUnprocessableEntity, "port is 1 to 65535.", 0},
	{InvalidSource, http.StatusUnprocessableEntity, "git_source is not acceptable.", 0},
	{InvalidRole, http.StatusUnprocessableEntity, "role is viewer, developer or owner.", 0},
	{InvalidPass, http.StatusUnprocessableEntity, "A password has 12 to 256 characters.", 0},
	{InvalidWindow, http.StatusUnprocessableEntity, "from must not be after to.", 0},
	{WindowExpired, http.StatusUnprocessableEntity, "The window lies entirely before the 92 days that are kept.", 0},
	{UnknownPlan, http.StatusUnprocessableEntity, "There is no such plan in the key's environment.", 0},
	{UnknownUser, http.StatusUnprocessableEntity, "There is no such user.", 0},
	{LastOwner, http.StatusUnprocessableEntity, "A project keeps at least one owner.", 0},
	{UnstorableText, http.StatusUnprocessableEntity, "Text must be valid UTF-8 without control characters.", 0},
	{ImageRequired, http.StatusUnprocessableEntity, "image is required: the app is deployed from images.", 0},
	{InvalidCommit, http.StatusUnprocessableEntity, "commit is a git commit hash, 4 to 64 hexadecimal digits.", 0},
	{InvalidTrust, http.StatusUnprocessableEntity, "A trust names an issuer, an audience and claims.", 0},
	{InvalidPolicy, http.StatusUnprocessableEntity, "leak_policy is disable or revoke.", 0},
	{InvalidPreflight, http.StatusUnprocessableEntity, "preflight is app or refuse.", 0},

	{NotFound, http.StatusNotFound, "There is nothing here by that name.", 0},
	{AlreadyExists, http.StatusConflict, "That name is taken.", 0},
	{NamespaceTaken, http.StatusConflict, "Another project and environment already make this namespace.", 0},
	{NameTaken, http.StatusConflict, "The cluster has an object of this name that Sluice did not make.", 0},
	{HostTaken, http.StatusConflict, "Another app already answers on this host.", 0},
	{HostReserved, http.StatusConflict, "This host is reserved: an app gave it up in the last 30 days. Choose another host, or ask an admin to release it.", 0},
	{TooManyHosts, http.StatusConflict, "The project has 100 reserved hosts, which is the limit. Ask an admin to release some of them, and retry.", 0},
	{NameInScope, http.StatusConflict, "The scopes of API keys still name an earlier app of this name. Update or revoke these keys first.", 0},
	{PlanInUse, http.StatusConflict, "Keys still use this plan.", 0},
	{NotEmpty, http.StatusConflict, "It still holds other things; delete those first.", 0},
	{KeyRevoked, http.StatusConflict, "A revoked key stays revoked.", 0},
	{QuotaHeld, http.StatusConflict, "The checkers that hold a part of the quota may still allow requests. A lost checker counts as lost 95 seconds after its last sign of life.", 0},
	{KeyExpired, http.StatusConflict, "The key has expired.", 0},
	{IdempotencyKeyReused, http.StatusUnprocessableEntity, "This Idempotency-Key was sent with another request before; each request has one of its own.", 0},
	{AlreadyIssued, http.StatusConflict, "This very request has issued a key before; it was shown that once.", 0},
	{PreconditionFailed, http.StatusPreconditionFailed, "It is not any more what If-Match names; read it again.", 0},
	{TooManyKeys, http.StatusConflict, "The environment has as many keys as it may; revoke some that are not needed.", 0},
	{TooManyPlans, http.StatusConflict, "The environment has 1,000 plans, which is the limit. Delete unused plans.", 0},
	{TooManyBuilds, http.StatusConflict, "The app has 20 queued builds, which is the limit. Try again when some of them have begun.", 0},
	{TooManyTokens, http.StatusConflict, "The project has as many service tokens as it may; revoke some that are not needed.", 0},
	{TooManyTrusts, http.StatusConflict, "An app can have at most 10 trusts. Remove one that is not needed.", 0},
	{GitSourceAttached, http.StatusConflict, "The app is built from its git source; leave image out or detach the git source.", 0},
	{NoGitSource, http.StatusConflict, "The app has no git source to build from.", 0},
	{NoPreviousRevision, http.StatusConflict, "There is no earlier revision that did not fail.", 0},
	{RevisionNotLive, http.StatusConflict, "The revision never had a ready pod, so it cannot be promoted.", 0},
	{RegistryNotAllowed, http.StatusUnprocessableEntity, "The project does not allow images from this registry.", 0},
	{InvalidRegistries, http.StatusUnprocessableEntity, "registries is a list of hosts, each with an optional port and path, such as registry.example.com/shop.", 0},
	{NamespaceNotEmpty, http.StatusConflict, "The namespace belonged to another project. It can be used again once a cluster admin has deleted it.", 0},
	{Conflict, http.StatusConflict, "It was changed by someone else meanwhile; read it again.", 0},

	{Internal, http.StatusInternalServerError, "Something went wrong on our side.", 0},
	{Unavailable, http.StatusServiceUnavailable, "A part that this needs is not available right now; try again shortly.", 5 * time.Second},
}

// row finds code's row. A code that the table lacks is answered as Internal;
// a test walks the package's codes so that none can be missing.
func row(code Code) Row {
	for _, r := range table {
		if r.Code == code {
			return r
		}
	}
	return Row{Code: Internal, Status: http.StatusInternalServerError}
}
