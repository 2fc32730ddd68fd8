package functest

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
)

// UserHeader is the header with the user for [Sessions].
const UserHeader = "X-Test-User"

// Admin is the username of an administrator.
const Admin = "admin"

// Sessions accepts every user.
type Sessions struct{}

// Session returns an unauthenticated problem without UserHeader.
func (Sessions) Session(r *http.Request) (identity.Session, error) {
	name := r.Header.Get(UserHeader)
	if name == "" {
		return identity.Session{}, problem.FromCode(problem.Unauthenticated)
	}
	return identity.Session{ID: "session-of-" + name, Caller: identity.Caller{Username: name, Admin: name == Admin}}, nil
}
