package console

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestAuditLog(t *testing.T) {
	t.Parallel()
	inEach(t, long.Pick(usual, []window{desk, desk.night(), phone, phone.plain()}), func(v *visitor) {
		s := newSite(v.t)
		plan := s.starter()
		key := s.named(plan, "Checkout team")
		s.Revoke(key)
		owner := s.member("owner")
		s.faster(owner, plan)
		made := "created environment " + s.Env
		const newest = ".record > details"
		v.signsIn(owner)
		v.opens("/console/projects/" + s.Project)
		v.clicks("Audit log")
		v.sees(owner.username+" changed plan "+plan.ID, "revoked key "+key.ID, made)
		v.isAt(s.audit(""))
		v.unfolds(newest).sees("rate 10 25", "127.0.0.1")
		v.shot("audit")

		v.presses("Filter")
		v.chooses("Action", "Revoke key")
		v.clicks("Apply filter").sees("revoked key " + key.ID)
		v.seesNo(made)
		v.unfolds(newest).sees("status active revoked")
		v.shot("audit-filtered")
		v.clicks("projects/" + s.Project + "/api-keys/" + key.ID).sees("created key Checkout team")
		v.seesNo("changed plan")
		v.clicks("Show all", owner.username).sees("changed plan")
		v.seesNo("revoked key")

		v.submits("Apply filter", "Actor", "nobody").sees("No matching records")
		v.shot("audit-none")
		tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
		v.clicks("Show all records")
		v.presses("Filter")
		v.sets("From", tomorrow)
		v.clicks("Apply filter").sees("No matching records")
		v.sets("To", "2020-01-01")
		v.clicks("Apply filter").sees("from must not be after to.")
		v.shot("audit-refused")
		if !v.window.noScript {
			v.accessible()
		}
		v.sets("From", "")
		v.sets("To", tomorrow)
		v.clicks("Apply filter").sees("changed plan")
	})
}

func (s site) audit(query string) string {
	return "/console/projects/" + s.Project + "/audit" + query
}

// faster raises a plan's rate from 10 to 25 as the given person.
func (s site) faster(by person, plan wire.Plan) {
	s.T.Helper()
	c := stacktest.SignIn(s.T, world, by.username, by.password)
	_, err := c.UpdatePlan(s.T.Context(), s.Project, s.Env, plan.ID, wire.UpdatePlan{Rate: wire.Some(25.0)})
	must(s.T, err)
}

func TestAuditPages(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, phone)
	plan := s.starter()
	const changes = 30
	for i := range changes {
		_, err := s.Client.UpdatePlan(t.Context(), s.Project, s.Env, plan.ID, wire.UpdatePlan{Burst: wire.Some(int64(100 + i))})
		must(t, err)
	}
	v.opens(s.audit("?action=plan.update"))
	newest := func(want string) {
		t.Helper()
		v.until("see "+want, func() bool { return strings.Contains(v.textOf(".record table"), want) })
	}
	last := strconv.Itoa(100 + changes - 1)
	newest(last)
	v.clicks("Next page")
	newest(strconv.Itoa(100 + changes - 1 - 25))
	if got := strings.Count(v.source(), "changed plan"); got < changes-25 {
		t.Errorf("second page: got %d records", got)
	}
	v.clicks("First page")
	newest(last)
}

func TestInstallationAuditLog(t *testing.T) {
	t.Parallel()
	inEach(t, usual, func(v *visitor) {
		s := newSite(v.t)
		p := s.member("viewer")
		v.opens("/console/sign-in")
		v.signsInHere(person{p.username, "a wrong password"}).sees("The username or the password is wrong.")
		v.signsInHere(admin()).sees("Projects")
		v.presses(who(admin()))
		v.clicks("Installation audit log").sees("Records that belong to no project")
		v.shot("audit-installation")
		v.opens("/console/audit?resource=users/" + p.username)
		v.sees("signed in Failed", "Not signed in", "created user "+p.username)
	})
}

func TestAuditLogOfOthers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, role := range []string{"viewer", "developer"} {
		v := browseAs(t, desk, s.member(role))
		v.opens("/console/projects/" + s.Project).sees("Your role is " + role)
		v.offersNone("Audit log")
		for _, path := range []string{s.audit(""), s.audit("?from=yesterday"), "/console/audit"} {
			v.opens(path).sees("Access denied")
			v.seesNo("environment.create")
		}
	}
	v := browseAs(t, desk, s.member("owner"))
	v.opens("/console/audit").sees("Access denied")
	v.presses("Back to projects").sees(s.Project)
	v.offersNone("Installation audit log")
}

func TestAuditActionsBelong(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.named(s.starter(), "Checkout team")
	s.App("hello")
	s.member("viewer")
	project, err := client.Collect(s.Client.Audit(t.Context(), s.Project, client.AuditQuery{}))
	must(t, err)
	others, err := client.Collect(s.Client.InstallationAudit(t.Context(), client.AuditQuery{Resource: "projects/" + s.Project}))
	must(t, err)
	if len(project) < 4 || len(others) != 1 {
		t.Errorf("got %d and %d records", len(project), len(others))
	}
	for _, r := range append(project, others...) {
		if audit.Action(r.Action).OfInstallation() != (r.Project == "") {
			t.Errorf("%s: got the project %q", r.Action, r.Project)
		}
	}
}
