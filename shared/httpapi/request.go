package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

// maxRequestName is the maximum length of an Idempotency-Key, in bytes.
const maxRequestName = 255

// RequestName returns the request's Idempotency-Key, "" if there is none. It returns an
// invalid_parameter problem if the header is malformed.
func (s Scope) RequestName() (string, error) {
	names := s.Header(api.IdempotencyKey)
	if len(names) == 0 {
		return "", nil
	}
	hidden := func(c rune) bool { return c < ' ' || c > '~' }
	if len(names) > 1 || names[0] == "" || len(names[0]) > maxRequestName || strings.ContainsFunc(names[0], hidden) {
		return "", problem.New(problem.InvalidParameter, "Idempotency-Key has 1 to %d characters of visible ASCII and is sent once.", maxRequestName)
	}
	return names[0], nil
}

// Delivery returns the request about an app as a delivery that may be sent again. Without an
// Idempotency-Key every call is a new one. It returns an invalid_parameter problem if the
// header is malformed.
func (s Scope) Delivery(body any) (hook.Delivery, error) {
	name, err := s.RequestName()
	if name == "" || err != nil {
		return hook.Delivery{}, err
	}
	content, err := json.Marshal(body)
	if err != nil {
		return hook.Delivery{}, fmt.Errorf("encode the request: %w", err)
	}
	return hook.NewRequest(s.Caller.Username, s.App.Ref(), name, append([]byte(s.row.Pattern()+"\n"), content...)), nil
}

// SetReplayed marks the response as the result of an earlier call.
func (s Scope) SetReplayed() { s.head.Set(api.Replayed, "true") }
