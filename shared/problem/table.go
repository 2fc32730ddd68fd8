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

// Requests that cannot be read (promises A2, A3).
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

// Missing authentication or authorization (promises S1, S3).
const (
	Unauthenticated    Code = "unauthenticated"
	InvalidCredentials Code = "invalid_credentials"
	InvalidToken       Code = "invalid_token"
	Forbidden          Code = "forbidden"
	CSRFRequired       Code = "csrf_required"
)

// Well-formed requests with invalid values.
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
	InvalidTag     Code = "invalid_tag"
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
	LastAdmin      Code = "last_admin"
	InvalidState   Code = "invalid_state"
	UnstorableText Code = "invalid_text"
	ImageRequired  Code = "image_required"
	InvalidCommit  Code = "invalid_commit"
	InvalidTrust   Code = "invalid_trust"
	InvalidPolicy  Code = "invalid_policy"

	InvalidPreflight Code = "invalid_preflight"
)

// Conflicts and missing resources.
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

// Server errors.
const (
	Internal    Code = "internal"
	Unavailable Code = "unavailable"
)

// Row describes the response for a code.
type Row struct {
	Code       Code
	Status     int           // HTTP status
	Message    string        // default message
	RetryAfter time.Duration // default Retry-After; 0 for none
}

// challenges contains the WWW-Authenticate header of each 401, required by RFC 9110 (section
// 15.5.2). A challenge is constant, so it reveals no more than its code. There is no registered
// scheme for API keys or webhook tokens. Basic is unsuitable: browsers would show a password
// dialog.
//
//nolint:gochecknoglobals // a constant table
var challenges = map[Code]string{
	InvalidKey:         `ApiKey realm="sluice"`,
	Unauthenticated:    `Bearer realm="sluice"`,
	InvalidCredentials: `Bearer realm="sluice"`,
	InvalidToken:       `ServiceToken realm="sluice"`,
}

// Table returns one row for each code.
func Table() []Row { return append([]Row(nil), table[:]...) }

//nolint:gochecknoglobals // a constant table
var table = [...]Row{
	{InvalidKey, http.StatusUnauthorized, "A valid API key for this app is required in the X-API-Key header.", 0},
	{RateLimited, http.StatusTooManyRequests, "Too many requests. Retry after the time in Retry-After.", time.Second},
	{QuotaExhausted, http.StatusTooManyRequests, "The quota of this key's usage plan is used up. Retry in the next period; Retry-After contains the seconds until then.", 0},
	{GateUnavailable, http.StatusServiceUnavailable, "API keys cannot be verified at the moment. Retry after the time in Retry-After.", 10 * time.Second},
	{Misconfigured, http.StatusInternalServerError, "The gate of this app is misconfigured. Contact the operator.", 0},

	{MalformedJSON, http.StatusBadRequest, "The request body is not valid JSON.", 0},
	{UnknownField, http.StatusBadRequest, "The request body contains an unknown field. Remove it or correct its name.", 0},
	{WrongType, http.StatusBadRequest, "A field of the request body has the wrong type.", 0},
	{InvalidDate, http.StatusBadRequest, "The date is invalid. Use a UTC calendar day in the form YYYY-MM-DD.", 0},
	{InvalidPage, http.StatusBadRequest, "The page is invalid. Use a page_size from 1 to 500 and a page_token that this list returned.", 0},
	{InvalidParameter, http.StatusBadRequest, "A parameter of the request is invalid.", 0},
	{UnknownParameter, http.StatusBadRequest, "The query contains an unknown parameter. Remove it or correct its name.", 0},
	{BodyTooLarge, http.StatusRequestEntityTooLarge, "The request body is too large.", 0},
	{UnsupportedMediaType, http.StatusUnsupportedMediaType, "Content-Type must be application/json.", 0},
	{MethodNotAllowed, http.StatusMethodNotAllowed, "This URL does not support the method. Use a method from the Allow header.", 0},
	{SecretInURL, http.StatusBadRequest, "The URL contains an API key or a service token. Rotate or revoke it: proxies may have logged the URL.", 0},

	{Unauthenticated, http.StatusUnauthorized, "Authentication is required. Sign in or send a valid service token.", 0},
	{InvalidCredentials, http.StatusUnauthorized, "The username or the password is wrong.", 0},
	{InvalidToken, http.StatusUnauthorized, "A valid webhook token or signature is required.", 0},
	{Forbidden, http.StatusForbidden, "Your role does not allow this. Ask a project owner or an admin.", 0},
	{CSRFRequired, http.StatusForbidden, "The X-CSRF-Token header is missing or wrong. Send the csrf_token of the session.", 0},

	{MissingField, http.StatusUnprocessableEntity, "A required field is missing.", 0},
	{InvalidName, http.StatusUnprocessableEntity, "The name is invalid. It must match the field's pattern and length.", 0},
	{InvalidRate, http.StatusUnprocessableEntity, "rate must be between 0.01 and 100000 requests per second.", 0},
	{InvalidBurst, http.StatusUnprocessableEntity, "burst must be an integer from 1 to 1000000.", 0},
	{InvalidQuota, http.StatusUnprocessableEntity, "quota must be an integer from 1 to 10^12. Set quota_period (day, week or month) with it, and optionally quota_mode (soft or hard).", 0},
	{InvalidExpiry, http.StatusUnprocessableEntity, "expires_at must be an RFC 3339 timestamp.", 0},
	{ExpiryInPast, http.StatusUnprocessableEntity, "expires_at is in the past. Use a future time.", 0},
	{InvalidGrace, http.StatusUnprocessableEntity, "grace must be a duration from 0s to 720h.", 0},
	{InvalidStatus, http.StatusUnprocessableEntity, "status must be active or disabled.", 0},
	{InvalidScope, http.StatusUnprocessableEntity, "apps must contain apps of the key's environment, each at most once.", 0},
	{InvalidTag, http.StatusUnprocessableEntity, "tags must contain at most 10 tags, each at most once. A tag has 1 to 32 characters of a-z, 0-9 and -.", 0},
	{InvalidImage, http.StatusUnprocessableEntity, "image must be a full image reference with a tag or a digest.", 0},
	{InvalidHost, http.StatusUnprocessableEntity, "host must be a DNS name.", 0},
	{InvalidPort, http.StatusUnprocessableEntity, "port must be between 1 and 65535.", 0},
	{InvalidSource, http.StatusUnprocessableEntity, "git_source is invalid. Check repository, branch and path.", 0},
	{InvalidRole, http.StatusUnprocessableEntity, "role must be viewer, developer or owner.", 0},
	{InvalidPass, http.StatusUnprocessableEntity, "A password must have 12 to 256 characters.", 0},
	{InvalidWindow, http.StatusUnprocessableEntity, "from must not be after to.", 0},
	{WindowExpired, http.StatusUnprocessableEntity, "The requested days are no longer stored. Request days within the last 92 days.", 0},
	{UnknownPlan, http.StatusUnprocessableEntity, "The plan does not exist in the key's environment. Use the ID of an existing plan.", 0},
	{UnknownUser, http.StatusUnprocessableEntity, "The user does not exist. Use the name of an existing user.", 0},
	{LastOwner, http.StatusUnprocessableEntity, "The project would have no active owner. Add another owner first.", 0},
	{LastAdmin, http.StatusUnprocessableEntity, "The installation would have no active admin. Make another user an admin first.", 0},
	{InvalidState, http.StatusUnprocessableEntity, "state must be active or deactivated.", 0},
	{UnstorableText, http.StatusUnprocessableEntity, "Text must be valid UTF-8 without control characters.", 0},
	{ImageRequired, http.StatusUnprocessableEntity, "image is required: the app is deployed from images.", 0},
	{InvalidCommit, http.StatusUnprocessableEntity, "commit must be a git commit hash of 4 to 64 hexadecimal digits.", 0},
	{InvalidTrust, http.StatusUnprocessableEntity, "The trust is invalid. It needs an issuer, an audience and claims.", 0},
	{InvalidPolicy, http.StatusUnprocessableEntity, "leak_policy must be disable or revoke.", 0},
	{InvalidPreflight, http.StatusUnprocessableEntity, "preflight must be app or refuse.", 0},

	{NotFound, http.StatusNotFound, "The resource does not exist. Check the name or ID.", 0},
	{AlreadyExists, http.StatusConflict, "A resource with this name already exists. Choose another name.", 0},
	{NamespaceTaken, http.StatusConflict, "Another project and environment already use this namespace. Choose another name.", 0},
	{NameTaken, http.StatusConflict, "The cluster has an object with this name that Sluice did not create. Choose another name, or delete the object.", 0},
	{HostTaken, http.StatusConflict, "Another app already uses this host. Choose another host.", 0},
	{HostReserved, http.StatusConflict, "This host is reserved: an app gave it up in the last 30 days. Choose another host, or ask an admin to release it.", 0},
	{TooManyHosts, http.StatusConflict, "The project has reached its limit of 100 reserved hosts. Ask an admin to release some of them, and retry.", 0},
	{NameInScope, http.StatusConflict, "The scopes of API keys still name an earlier app with this name. Update or revoke these keys first.", 0},
	{PlanInUse, http.StatusConflict, "Keys still use this plan. Revoke them or give them another plan first.", 0},
	{NotEmpty, http.StatusConflict, "The resource still contains other resources. Delete those first.", 0},
	{KeyRevoked, http.StatusConflict, "The key is revoked, which is permanent. Create a new key.", 0},
	{QuotaHeld, http.StatusConflict, "The checkers that hold a part of the quota may still allow requests. Retry 95 seconds after the lost checker has stopped.", 0},
	{KeyExpired, http.StatusConflict, "The key has expired. Set a later expiry first.", 0},
	{IdempotencyKeyReused, http.StatusUnprocessableEntity, "This Idempotency-Key belongs to a different request. Use a new value for each request.", 0},
	{AlreadyIssued, http.StatusConflict, "This request already issued a key. A key is shown only once. If it is lost, rotate the key.", 0},
	{PreconditionFailed, http.StatusPreconditionFailed, "The resource no longer matches If-Match. Read it again and retry.", 0},
	{TooManyKeys, http.StatusConflict, "The environment has reached its key limit. Revoke unused keys.", 0},
	{TooManyPlans, http.StatusConflict, "The environment has reached its limit of 1,000 plans. Delete unused plans.", 0},
	{TooManyBuilds, http.StatusConflict, "The app has reached its limit of 20 queued builds. Retry when some of them have started.", 0},
	{TooManyTokens, http.StatusConflict, "The project has reached its service token limit. Revoke unused tokens.", 0},
	{TooManyTrusts, http.StatusConflict, "The app has reached its limit of 10 trusts. Remove an unused trust.", 0},
	{GitSourceAttached, http.StatusConflict, "The app is built from its git source. Omit image or remove the git source.", 0},
	{NoGitSource, http.StatusConflict, "The app has no git source to build from. Set a git source first.", 0},
	{NoPreviousRevision, http.StatusConflict, "The app has no earlier revision that did not fail. Deploy an image or build a commit instead.", 0},
	{RevisionNotLive, http.StatusConflict, "The revision never had a ready pod. Promote a revision that had one.", 0},
	{RegistryNotAllowed, http.StatusUnprocessableEntity, "The project does not allow images from this registry. Ask a project owner to allow it.", 0},
	{InvalidRegistries, http.StatusUnprocessableEntity, "registries must be a list of hosts, each with an optional port and path, such as registry.example.com/shop.", 0},
	{NamespaceNotEmpty, http.StatusConflict, "The namespace belonged to another project. Choose another name, or ask a cluster admin to delete the namespace.", 0},
	{Conflict, http.StatusConflict, "The resource was changed in the meantime. Read it again and retry.", 0},

	{Internal, http.StatusInternalServerError, "An internal error occurred. Contact the operator with the X-Request-Id of the response.", 0},
	{Unavailable, http.StatusServiceUnavailable, "A required service is unavailable. Retry after the time in Retry-After.", 5 * time.Second},
}

// row returns the row of code. It returns the status of [Internal] for an unknown code.
func row(code Code) Row {
	for _, r := range table {
		if r.Code == code {
			return r
		}
	}
	return Row{Code: Internal, Status: http.StatusInternalServerError}
}
