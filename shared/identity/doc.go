// Package identity authenticates requests with console sessions and service tokens, and hashes
// passwords (promises S1 to S7, S9 to S11).
//
// A session is a JWT, signed with Ed25519. Browsers hold it in a cookie and repeat its CSRF value
// in X-CSRF-Token for changes. The command line sends it as a bearer token, which needs no CSRF
// value and has precedence over cookies. Programs send a service token (package servicetoken) as
// a bearer token.
//
// Each request also queries the store: signing out, changing the password, ending sessions and
// revoking a token therefore take effect immediately. So do the deactivation, removal and demotion
// of a user, because the rights of a session come from the store, not from its token. If the store
// does not respond, the request fails.
//
// A [Device] token distinguishes a user who signs in again from an attacker who guesses passwords.
// It is valid until the user's sessions end, its signing key is removed, or [DeviceTTL] has passed.
//
// # Signing keys
//
// Keys are PEM files in a directory, usually a mounted Secret. Functions that verify sessions need
// "{kid}.pub", a public key (PKIX) or a certificate. The session function, which signs them, needs
// "{kid}.key", a private key (PKCS#8). All keys verify; the private key with the last kid in lexical
// order signs. To rotate, add the new .pub everywhere, then the new .key to the session function,
// and remove the old pair [SessionTTL] later. No restart is required.
package identity
