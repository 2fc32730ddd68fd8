// Package hook holds the rules of the deploy webhook (promises W2, W4, W7, W9): its
// token, how a call proves that it knows the token, what git providers say in a push,
// and what a proven call makes of an app. All of it is pure.
//
// # Proof
//
// A call carries the token itself in X-Service-Token or X-Gitlab-Token, or in X-Hub-Signature-256
// the HMAC-SHA256 of its body under the token, as GitHub and Gitea compute it. One
// of the two suffices; where both are sent, both must hold. A header that stands
// twice proves nothing: what one reader checks must not differ from what another
// one uses. Comparisons take the same time wherever the two values differ.
//
// The signature covers the raw bytes of the body, and nothing else: not the
// event's name and not the delivery's id. Whoever has seen a signed body can send
// it again under another id, so webhooks belong on https.
//
// A pipeline may bring a token of its own instead, which its provider has issued to it
// (Authorization: Bearer). That one counts once ([Spent]): whoever has seen the call can
// not send it again. It is looked at only where there is no claim to know the app's token.
//
// # What a call says
//
// A call without an event header comes from a CI pipeline. Its body holds image and
// commit, and fields that nobody knows are ignored: pipelines send more than is needed.
// Wrong types and fields that stand twice are refused, as everywhere else in the API. Of
// the bodies of provider events only ref, after and deleted are read. GitLab's Push Hook is a
// push; all other events of GitLab's are ignored.
//
// A commit is 4 to 64 hexadecimal digits (git abbreviates to no less than 4, and
// SHA-256 repositories have 64), kept in lower case, because it is shown in the
// deploy history and handed to the build. "" and null stand for a field left out,
// as a pipeline sends for a variable that is not set.
package hook
