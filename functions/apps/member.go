package apps

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listMembers(w http.ResponseWriter, r *http.Request) error {
	p, _, err := s.project(r, app.Viewer)
	if err != nil {
		return err
	}
	page, err := httpapi.ReadPage(r)
	if err != nil {
		return err
	}
	list, err := pageOfMembers(p.Members, page)
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// setMembers replaces the whole list of members. Problems: missing_field,
// invalid_role, invalid_name for one named twice, last_owner, unknown_user.
func (s *Service) setMembers(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("project")
	if _, err := s.guard.Require(r, name, app.Owner); err != nil {
		return err
	}
	in, err := httpapi.Decode[wire.SetMembers](w, r)
	if err != nil {
		return err
	}
	members, err := parseMembers(in.Members)
	if err != nil {
		return err
	}
	missing, err := s.users.UsersExist(r.Context(), slices.Sorted(maps.Keys(members)))
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return problem.New(problem.UnknownUser, "There is no user %.64q.", missing[0])
	}
	p, err := s.projects.UpdateMembers(r.Context(), name, func(map[string]app.Role) (map[string]app.Role, error) {
		return members, nil
	})
	if err != nil {
		return err
	}
	list, err := pageOfMembers(p.Members, httpapi.Page{Size: max(1, len(p.Members))})
	if err != nil {
		return err
	}
	return httpapi.JSON(w, http.StatusOK, list)
}

// removeMember takes one user out of a project. Problems: not_found, last_owner.
func (s *Service) removeMember(w http.ResponseWriter, r *http.Request) error {
	name, username := r.PathValue("project"), r.PathValue("username")
	if _, err := s.guard.Require(r, name, app.Owner); err != nil {
		return err
	}
	_, err := s.projects.UpdateMembers(r.Context(), name, func(members map[string]app.Role) (map[string]app.Role, error) {
		if _, ok := members[username]; !ok {
			return nil, problem.New(problem.NotFound, "There is no such member.")
		}
		delete(members, username)
		return members, requireOwner(members)
	})
	if err != nil {
		return err
	}
	return httpapi.NoContent(w)
}

// parseMembers reads a whole list of members.
func parseMembers(in []wire.Member) (map[string]app.Role, error) {
	if in == nil {
		return nil, problem.New(problem.MissingField, "members is required.")
	}
	members := make(map[string]app.Role, len(in))
	for _, m := range in {
		role := app.Role(m.Role)
		if !role.Valid() {
			return nil, problem.Of(problem.InvalidRole)
		}
		if _, twice := members[m.Username]; twice {
			return nil, problem.New(problem.InvalidName, "%.64q is listed twice.", m.Username)
		}
		members[m.Username] = role
	}
	return members, requireOwner(members)
}

func requireOwner(members map[string]app.Role) error {
	for _, role := range members {
		if role == app.Owner {
			return nil
		}
	}
	return problem.Of(problem.LastOwner)
}

// pageOfMembers is a page of members by name; the token is the last name of the
// page before.
func pageOfMembers(members map[string]app.Role, page httpapi.Page) (wire.List[wire.Member], error) {
	after, err := base64.RawURLEncoding.DecodeString(page.Token)
	if err != nil {
		return wire.List[wire.Member]{}, problem.Of(problem.InvalidPage)
	}
	list := wire.List[wire.Member]{Items: []wire.Member{}}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name <= string(after) {
			continue
		}
		if n := len(list.Items); n == page.Size {
			list.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(list.Items[n-1].Username))
			break
		}
		list.Items = append(list.Items, wire.Member{Username: name, Role: string(members[name])})
	}
	return list, nil
}
