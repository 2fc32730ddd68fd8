// Package hook contains the rules of the deploy webhook (promises W2, W4, W7, W9): it
// authenticates and parses calls, and decides their effect. It does no I/O.
//
// # Authentication
//
// A call carries the app's token in X-Service-Token or X-Gitlab-Token, or an HMAC-SHA256 of its
// body in X-Hub-Signature-256, with the token as the key. One header suffices; if several are
// sent, all must be valid. A header that appears twice is rejected. Comparisons take constant time.
//
// The signature covers only the raw body, not the event or the delivery ID. Anyone who sees a
// signed body can send it again with another ID. Therefore use HTTPS.
//
// A pipeline can send a token from its CI provider instead (Authorization: Bearer). It is valid
// for one call ([Spent]), and is ignored if the call carries one of the headers above.
//
// # Payload
//
// A call without an event header comes from a CI pipeline. Unknown fields are ignored, but wrong
// types and duplicate fields are rejected. Empty and null fields count as absent, because
// pipelines send them for unset variables. Only the fields ref, after and deleted of a push event
// are read. Of the GitLab events, only Push Hook is a push; the others are ignored.
package hook
