package functest

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
)

// UserHeader names the user of a request to a function that uses [Sessions].
const UserHeader = "X-Test-User"

// Admin is the username of an administrator.
const Admin = "admin"

// Sessions accepts every request of a named user.
type Sessions struct{}

// Session returns a session of the user that the request names. Problem: unauthenticated.
func (Sessions) Session(r *http.Request) (identity.Session, error) {
	name := r.Header.Get(UserHeader)
	if name == "" {
		return identity.Session{}, problem.Of(problem.Unauthenticated)
	}
	return identity.Session{ID: "session-of-" + name, Caller: identity.Caller{Username: name, Admin: name == Admin}}, nil
}
