// Package identity says who makes a request and whether they may: console
// sessions, service tokens, passwords and roles (promises S1 to S7, S9, S10).
//
// # Sessions
//
// A session is a JWT signed with Ed25519 that lives for [SessionTTL]. Browsers
// hold it in a cookie that scripts cannot read, and repeat the token's CSRF value
// in X-CSRF-Token with everything that changes something; the command line sends
// it as "Authorization: Bearer …", which no other site can make a browser do, so
// that needs no CSRF value. When both are sent, the bearer token counts. The cookie's
// name begins with __Host-, so that browsers take it from the console's own host alone.
//
// A signature alone does not open anything: every request also asks the document
// store whether the session was ended, by signing out or by a change of its
// user's password, so that both take effect at once. When the store does not
// answer, the request fails.
//
// # Service tokens
//
// A program that works in one project, such as a nightly rotation of keys, has a service
// token (package servicetoken), which it sends as a bearer token. Each request reads the
// token's document, so that a revocation counts at once, and one that is unknown,
// revoked, expired or wrong gets the same answer. The caller is then nobody's user:
// "token:" and the token's name stand where a username would, with a role in the token's
// project, and none elsewhere. A cookie that holds one is passed over.
//
// When it was last used is written at most every 5 minutes, by one of those who use it at
// once; a request that cannot write it goes on.
//
// # Devices
//
// Whoever signs in also gets a token that opens nothing: a [Device], to send with the
// next sign-in as the same user. By it the throttle tells those who belong there from
// strangers who guess. It is signed by the same keys and ends with them, with the
// password that it was given for, and after [DeviceTTL].
//
// # Signing keys
//
// Keys are files of a directory, the mount of a Kubernetes Secret: "{kid}.pub"
// (PKIX PEM, or a PEM certificate of which the key alone counts, not its dates) in
// every function that verifies and "{kid}.key" (PKCS#8 PEM) where sessions are signed.
// All of them are accepted, the last kid in lexical order that has a private key signs.
// To rotate: add the new .pub everywhere, then the
// new .key to the session function, and take the old pair away [SessionTTL]
// later. Nothing needs a restart.
//
// # Roles
//
// [Guard.Require] is the one place that compares roles. Somebody who is no member
// of a project is told "forbidden" whether or not the project exists.
package identity
