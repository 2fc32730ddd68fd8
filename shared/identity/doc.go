// Package identity authenticates requests with console sessions and service tokens, and hashes
// passwords (promises S1 to S7, S9, S10).
//
// A session is a JWT, signed with Ed25519. Browsers hold it in a cookie and repeat its CSRF value
// in X-CSRF-Token for changes. The command line sends it as a bearer token, which needs no CSRF
// value and has precedence over cookies. Programs send a service token (package servicetoken) as
// a bearer token.
//
// Each request also queries the store, so that signing out, changing the password or revoking a
// token takes effect immediately. If the store does not respond, the request fails.
//
// A [Device] token lets the throttle distinguish a user who signs in again from guessers. It
// becomes invalid with its signing key, with a password change, and after [DeviceTTL].
//
// # Signing keys
//
// Keys are files in a directory, usually a mounted Secret: "{kid}.pub" (PKIX PEM, or a PEM
// certificate whose dates are ignored) where sessions are verified, and "{kid}.key" (PKCS#8 PEM)
// where they are signed. All keys are accepted; the private key with the last kid in lexical
// order signs. To rotate, add the new .pub everywhere, then the new .key to the session function,
// and remove the old pair [SessionTTL] later. No restart is required.
package identity
