package httpapi

import (
	"context"
	"crypto/rand"
	"net/http"
)

// RequestIDHeader carries the request's id through proxy, functions and logs.
const RequestIDHeader = "X-Request-Id"

type requestIDKey struct{}

// RequestID gives the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

func withRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// requestID takes the caller's id if it is plain enough for a log line
// (1 to 64 of [0-9A-Za-z_-]), else makes one of 130 random bits.
func requestID(r *http.Request) string {
	id := r.Header.Get(RequestIDHeader)
	if len(id) == 0 || len(id) > 64 {
		return rand.Text()
	}
	for _, c := range []byte(id) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
		default:
			return rand.Text()
		}
	}
	return id
}
