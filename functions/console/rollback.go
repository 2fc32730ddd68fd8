package console

import (
	"fmt"
	"strconv"

	"github.com/sluicegate/sluice/shared/wire"
)

func (m routes) rollbacks() {
	m.page(inApp+"/deploys/{revision}/rollback", func(v *visit) error { return askRollback(v, form{}) })
	m.change(inApp+"/deploys/{revision}/rollback", rollBack)
}

// revision is the one that the visit's path names.
func (v *visit) revision() (int64, error) {
	n, err := strconv.ParseInt(v.r.PathValue("revision"), 10, 64)
	if err != nil || n < 1 {
		return 0, noPage()
	}
	return n, nil
}

// askRollback says what a rollback will change.
func askRollback(v *visit, f form) error {
	n, err := v.revision()
	if err != nil {
		return err
	}
	then, err := v.deployment(v.environment, func(d wire.Deployment) bool { return d.Revision == n })
	if err != nil {
		return err
	}
	now, err := v.deployment(v.environment, func(d wire.Deployment) bool { return d.Current })
	if err != nil {
		return err
	}
	c := confirmation{
		Title:  fmt.Sprintf("Roll %s back to revision %d?", v.app(), n),
		Lead:   fmt.Sprintf("Revision %d is current now. A new revision will run what revision %d ran.", now.Revision, n),
		Facts:  facts(now, then),
		Based:  []based{{"current", strconv.FormatInt(now.Revision, 10)}},
		Danger: true, Form: f,
		Action: v.inApp("deploys", strconv.FormatInt(n, 10), "rollback"), Button: fmt.Sprintf("Roll back to revision %d", n), Back: v.inApp("deploys"),
	}
	if then.Status == "failed" {
		c.Points = append(c.Points, fmt.Sprintf("Revision %d failed when it was deployed: %s", n, then.Message))
	}
	if then.NoDigest != "" {
		c.Points = append(c.Points, then.NoDigest+" So what the tag points to by now is deployed.")
	}
	c.Points = append(c.Points, "What serves now keeps serving until the new revision is ready.")
	return v.confirm(tabApps, c)
}

func rollBack(v *visit) error {
	n, err := v.revision()
	if err != nil {
		return err
	}
	a, err := v.readApp()
	if err != nil {
		return err
	}
	if stale := v.overtaken(a); stale != "" {
		return askRollback(v, v.sent("", stale))
	}
	if _, err := v.api.Rollback(v.ctx, v.project, v.environment, v.app(), n); err != nil {
		f, ok := v.refused(err, nil)
		if !ok {
			return err
		}
		return askRollback(v, f)
	}
	return v.done(v.inApp("deploys"), noticeRolledBack)
}
