// Package hook holds the rules of the deploy webhook (promises W2, W4, W7, W9): how a call is
// authenticated and parsed, and what it does. It does no I/O.
//
// # Authentication
//
// A call carries the app's token in X-Service-Token or X-Gitlab-Token, or the HMAC-SHA256 of its
// body under the token in X-Hub-Signature-256. One suffices; if several are sent, all must be
// valid. A header that appears twice is rejected. Comparisons take constant time.
//
// The signature covers only the raw body, not the event or the delivery ID. Anyone who has seen a
// signed body can send it again with another ID, so webhooks require HTTPS.
//
// A pipeline can send a token from its CI provider instead (Authorization: Bearer). It is valid
// for one call ([Spent]), and is ignored if the call carries one of the headers above.
//
// # Payload
//
// A call without an event header comes from a CI pipeline. Its unknown fields are ignored, but
// wrong types and duplicate fields are rejected. Empty and null fields count as absent, as
// pipelines send for unset variables. Of a push event, only ref, after and deleted are read. Of
// the GitLab events, only Push Hook is a push; the others are ignored.
package hook
