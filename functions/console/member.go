package console

import (
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

type membersPage struct {
	Members []wire.Member
	Tokens  []tokenRow
	Paging  view.Paging
	Roles   []view.Option
	Form    view.Form // for a new member, or for a rejected role
}

func roles() []view.Option {
	return []view.Option{
		{Value: string(app.Viewer), Label: "viewer: can read"},
		{Value: string(app.Developer), Label: "developer: can also deploy, and manage apps, keys and plans"},
		{Value: string(app.Owner), Label: "owner: can also manage members and environments"},
	}
}

func listMembers(r *request, f view.Form) error {
	var list wire.List[wire.Member]
	var tokens []tokenRow
	g, ctx := errgroup.WithContext(r.Context())
	g.Go(read(&list, func() (wire.List[wire.Member], error) { return r.api.MembersPage(ctx, r.project, r.asked()) }))
	g.Go(read(&tokens, func() ([]tokenRow, error) { return r.tokenRows(ctx) }))
	if err := g.Wait(); err != nil {
		return err
	}
	return r.show("members", page{Status: f.Status(), Title: "Members", Tab: tabMembers}, membersPage{
		Members: list.Items, Tokens: tokens, Paging: r.paging(r.URL.EscapedPath(), list.NextPageToken, len(list.Items), nil), Roles: roles(), Form: f,
	})
}

// setMember adds a member or changes a role, unless the user's role differs from the form.
func setMember(r *request) error {
	username, role, was := r.PostForm.Get("username"), r.PostForm.Get("role"), r.PostForm.Get("was")
	err := r.api.ChangeMembers(r.Context(), r.project, func(members []wire.Member) ([]wire.Member, error) {
		at := slices.IndexFunc(members, func(m wire.Member) bool { return m.Username == username })
		if at < 0 {
			members, at = append(members, wire.Member{Username: username}), len(members)
		}
		if is := members[at].Role; is != was {
			return nil, memberChangedError(memberChanged(username, is))
		}
		members[at].Role = role
		return members, nil
	})
	if changed, ok := errors.AsType[memberChangedError](err); ok {
		return listMembers(r, r.invalid("", string(changed)))
	}
	if err != nil {
		return r.again(err, func(r *request, f view.Form) error {
			if was != "" { // a role in the list; show the error above the list
				f.Values, f.Err.Field, f.Err.Others = nil, "", nil
			}
			return listMembers(r, f)
		})
	}
	return r.done(r.inProject("members"), noticeMemberSet)
}

type memberChangedError string

func (e memberChangedError) Error() string { return string(e) }

func memberChanged(username, is string) string {
	if is == "" {
		return "No changes were made: " + username + " is no longer a member."
	}
	return "No changes were made: the role of " + username + " is already " + is + ". Change it in the list."
}

func askRemoveMember(r *request, f view.Form) error {
	username := r.PathValue("username")
	return r.confirm(tabMembers, view.Confirmation{
		Title:  "Remove " + username + " from " + r.project + "?",
		Lead:   username + " loses access to the project. Keys and deployments that " + username + " created remain.",
		Danger: true, Form: f,
		Action: r.inProject("members", username, "remove"), Button: "Remove " + username, Back: r.inProject("members"),
	})
}

func removeMember(r *request) error {
	err := r.api.RemoveMember(r.Context(), r.project, r.PathValue("username"))
	if client.HasCode(err, "not_found") {
		return r.done(r.inProject("members"), noticeNothingChanged)
	}
	if err != nil {
		return r.again(err, askRemoveMember)
	}
	return r.done(r.inProject("members"), noticeMemberRemoved)
}
