package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/problem"
)

const maxRequestName = 255

// RequestName returns the Idempotency-Key of the request, or "". It returns an invalid_parameter
// problem if the header is malformed.
func (s Scope) RequestName() (string, error) {
	names := s.Header(api.IdempotencyKey)
	if len(names) == 0 {
		return "", nil
	}
	hidden := func(c rune) bool { return c < ' ' || c > '~' }
	if len(names) > 1 || names[0] == "" || len(names[0]) > maxRequestName || strings.ContainsFunc(names[0], hidden) {
		return "", problem.New(problem.InvalidParameter, "Idempotency-Key must appear once, with 1 to %d visible ASCII characters.", maxRequestName)
	}
	return names[0], nil
}

// Delivery returns the identity of a request about an app, for the detection of retries. It is zero
// without an Idempotency-Key. It returns an invalid_parameter problem if the header is malformed.
func (s Scope) Delivery(body any) (hook.CallID, error) {
	name, err := s.RequestName()
	if name == "" || err != nil {
		return hook.CallID{}, err
	}
	content, err := json.Marshal(body)
	if err != nil {
		return hook.CallID{}, fmt.Errorf("encode the request: %w", err)
	}
	return hook.NewRequest(s.Caller.Username, s.App.Ref(), name, append([]byte(s.row.Pattern()+"\n"), content...)), nil
}

// SetReplayed marks the response as the result of an earlier call.
func (s Scope) SetReplayed() { s.head.Set(api.Replayed, "true") }
