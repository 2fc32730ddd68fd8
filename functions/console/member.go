package console

import (
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) members() {
	m.page("/projects/{project}/members", func(v *visit) error { return listMembers(v, form{}) })
	m.change("/projects/{project}/members", setMember)
	m.page("/projects/{project}/members/{username}/remove", func(v *visit) error { return askRemoveMember(v, form{}) })
	m.change("/projects/{project}/members/{username}/remove", removeMember)
}

// membersPage lists a project's members; owners change them in place.
type membersPage struct {
	Members []wire.Member
	Paging  paging
	Roles   []option
	Form    form // of the member to add, or of the one whose role was not taken
}

func roles() []option {
	return []option{
		{Value: string(app.Viewer), Label: "viewer: reads"},
		{Value: string(app.Developer), Label: "developer: also deploys, and manages apps, keys and plans"},
		{Value: string(app.Owner), Label: "owner: also manages members and environments"},
	}
}

func listMembers(v *visit, f form) error {
	list, err := v.api.MembersPage(v.ctx, v.project, v.asked())
	if err != nil {
		return err
	}
	return v.show("members", sheet{Status: f.Status(), Title: "Members", Tab: tabMembers}, membersPage{
		Members: list.Items, Paging: v.paging(list.NextPageToken), Roles: roles(), Form: f,
	})
}

// setMember adds a member or changes a role. The API takes the whole list, so the
// list is read anew, and the one who is changed must be what the form was based on.
func setMember(v *visit) error {
	username, role := v.typed("username"), v.typed("role")
	members, err := client.Collect(v.api.Members(v.ctx, v.project))
	if err != nil {
		return err
	}
	is, at := "", -1
	for i, m := range members {
		if m.Username == username {
			is, at = m.Role, i
		}
	}
	if was := v.typed("was"); was != is {
		return listMembers(v, v.sent("", memberChanged(username, is)))
	}
	if at < 0 {
		members = append(members, wire.Member{Username: username, Role: role})
	} else {
		members[at].Role = role
	}
	if err := v.api.SetMembers(v.ctx, v.project, members); err != nil {
		fields := map[string]string{"unknown_user": "username", "invalid_name": "username", "invalid_role": "role"}
		if at >= 0 {
			fields = nil // the message belongs above the list
		}
		f, ok := v.refused(err, fields)
		if !ok {
			return err
		}
		if at >= 0 {
			f.Typed = nil // it was not typed into the form for a new one
		}
		return listMembers(v, f)
	}
	return v.done(v.inProject("members"), noticeMemberSet)
}

// memberChanged says what somebody else has made of a member meanwhile.
func memberChanged(username, is string) string {
	if is == "" {
		return username + " is no member any more, so nothing was done."
	}
	return username + " is " + is + " already, so nothing was done. Change the role in the list."
}

func askRemoveMember(v *visit, f form) error {
	username := v.r.PathValue("username")
	return v.confirm(tabMembers, confirmation{
		Title:  "Remove " + username + " from " + v.project + "?",
		Lead:   "They see nothing of the project any more. Keys and deployments that they have made stay.",
		Danger: true, Form: f,
		Action: v.inProject("members", username, "remove"), Button: "Remove " + username, Back: v.inProject("members"),
	})
}

func removeMember(v *visit) error {
	err := v.api.RemoveMember(v.ctx, v.project, v.r.PathValue("username"))
	if client.HasCode(err, "not_found") {
		return v.done(v.inProject("members"), noticeNothingChanged)
	}
	if err != nil {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return askRemoveMember(v, f)
	}
	return v.done(v.inProject("members"), noticeMemberRemoved)
}
