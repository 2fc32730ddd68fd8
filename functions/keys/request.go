package keys

import (
	"net/http"
	"strings"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
)

// idempotencyHeader names a call that its sender may send again.
const idempotencyHeader = "Idempotency-Key"

// maxRequestName bounds an Idempotency-Key, in bytes.
const maxRequestName = 255

// request tells by what name its sender would know a call again. Problem:
// invalid_parameter.
func (s *Service) request(r *http.Request, caller identity.Caller, project string) (apikey.Request, error) {
	names := r.Header.Values(idempotencyHeader)
	if len(names) == 0 {
		return apikey.Request{}, nil
	}
	hidden := func(c rune) bool { return c < ' ' || c > '~' }
	if len(names) > 1 || names[0] == "" || len(names[0]) > maxRequestName || strings.ContainsFunc(names[0], hidden) {
		return apikey.Request{}, problem.New(problem.InvalidParameter, "Idempotency-Key has 1 to %d characters of visible ASCII and is sent once.", maxRequestName)
	}
	return apikey.NewRequest(caller.Username, project, names[0], s.moment()), nil
}
