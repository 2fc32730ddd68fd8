// Package httpapitest lets tests ask as whom they like.
package httpapitest

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/problem"
)

// UserHeader says who makes a request.
const UserHeader = "X-Test-User"

// Admin is the username of one.
const Admin = "admin"

// Sessions believes every request.
type Sessions struct{}

// Session gives a session of the user that the request names. Problem: unauthenticated.
func (Sessions) Session(r *http.Request) (identity.Session, error) {
	name := r.Header.Get(UserHeader)
	if name == "" {
		return identity.Session{}, problem.Of(problem.Unauthenticated)
	}
	return identity.Session{ID: "session-of-" + name, Caller: identity.Caller{Username: name, Admin: name == Admin}}, nil
}
