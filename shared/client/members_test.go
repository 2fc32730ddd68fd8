package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// memberServer serves one list of members, two per page.
type memberServer struct {
	members []wire.Member
	version int
	before  func(s *memberServer)
}

func (s *memberServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list := wire.List[wire.Member]{}
	switch {
	case r.Method == http.MethodPut:
		s.before(s)
		if r.Header.Get("If-Match") != s.tag() {
			w.WriteHeader(http.StatusPreconditionFailed)
			_ = json.NewEncoder(w).Encode(wire.Error{Code: string(problem.PreconditionFailed), Message: "It has changed."})
			return
		}
		var body wire.SetMembers
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			panic(err)
		}
		s.members = body.Members
		s.version++
		list.Items = s.members
	case r.URL.Query().Get("page_token") == "":
		list.Items, list.NextPageToken = s.members[:2], "rest"
	default:
		list.Items = s.members[2:]
	}
	w.Header().Set("ETag", s.tag())
	_ = json.NewEncoder(w).Encode(list)
}

func (s *memberServer) tag() string { return fmt.Sprintf("%q", fmt.Sprint(s.version)) }

func role(name, role string) wire.Member { return wire.Member{Username: name, Role: role} }

func TestChangeMembers(t *testing.T) {
	t.Parallel()
	s := &memberServer{members: []wire.Member{role("ada", "owner"), role("bob", "owner"), role("cyd", "viewer")}}
	removed := false
	s.before = func(s *memberServer) {
		if !removed { // another owner removes bob between the read and the write
			removed = true
			s.members = []wire.Member{role("ada", "owner"), role("cyd", "viewer")}
			s.version++
		}
	}
	c := serve(t, s)
	add := func(members []wire.Member) ([]wire.Member, error) { return append(members, role("dan", "viewer")), nil }
	check.OK(t, c.ChangeMembers(t.Context(), "shop", add))
	want := []wire.Member{role("ada", "owner"), role("cyd", "viewer"), role("dan", "viewer")}
	if diff := cmp.Diff(want, s.members); diff != "" {
		t.Error("members (-want +got):\n", diff)
	}

	writes := 0
	s.before = func(s *memberServer) { writes++; s.version++ }
	if err := c.ChangeMembers(t.Context(), "shop", add); !HasCode(err, "precondition_failed") || writes != changeTries {
		t.Errorf("got %v after %d writes, want precondition_failed after %d", err, writes, changeTries)
	}
	stop := errors.New("stop")
	if err := c.ChangeMembers(t.Context(), "shop", func([]wire.Member) ([]wire.Member, error) { return nil, stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of the change", err)
	}
}
