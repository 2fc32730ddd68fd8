// Package httpapi adapts Sluice's handlers to net/http.
//
// A handler returns a result or an error. The adapter does the rest in the same way for all routes:
// authentication and access checks, request IDs, the access log, panic recovery, strict and bounded
// JSON decoding, and the responses of package problem (promises A2, A3).
package httpapi
