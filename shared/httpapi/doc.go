// Package httpapi is the one adapter between net/http and Sluice's handlers.
//
// A handler reads who → what → decide → keep → answer in a few lines and returns
// an error; the adapter does the rest, the same everywhere: request id, access
// log, recovery, bounded and strict JSON decoding, and the error answers of
// package problem (promises A2, A3).
package httpapi
