package store

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/plan"
)

// The functions named *View return the fields that audit records contain. These must never include a
// secret, or a value derived from one.

func projectPath(project string) string { return audit.Path("projects", project) }

func environmentPath(project, environment string) string {
	return audit.Path("projects", project, "environments", environment)
}

func appPath(a app.App) string {
	return audit.Path(environmentPath(a.Project, a.Environment), "apps", a.Name)
}

func planPath(e app.Environment, id plan.ID) string {
	return audit.Path(environmentPath(e.Project, e.Name), "plans", string(id))
}

func keyPath(k apikey.Key) string {
	return audit.Path("projects", k.Project, "api-keys", string(k.ID()))
}

func tokenPath(t servicetoken.Token) string {
	return audit.Path(projectPath(t.Project), "tokens", string(t.ID))
}

func userPath(name string) string { return audit.Path("users", name) }

func membersView(members map[string]app.Role) audit.Values {
	v := audit.Values{}
	for name, role := range members {
		v[name] = string(role)
	}
	return v
}

func settingsView(p, other app.Project) audit.Values {
	v := audit.Values{}
	if p.LeakPolicy != other.LeakPolicy {
		v["leak_policy"] = string(p.LeakPolicy)
	}
	if !slices.Equal(p.Registries, other.Registries) {
		v["registries"] = append([]string{}, p.Registries...)
	}
	return v
}

func environmentView(e app.Environment) audit.Values {
	return audit.Values{"namespace": e.Namespace}
}

// appView omits the gate's state and the revision, which users do not set.
func appView(a app.App) audit.Values {
	v := audit.Values{"host": a.Host, "port": a.Port, "require_api_key": a.RequireAPIKey, "preflight": string(a.Preflight), "git_source": nil}
	if g := a.GitSource; g != nil {
		v["git_source"] = map[string]string{"repository": g.Repository, "branch": g.Branch, "path": g.Path}
	}
	return v
}

func newAppView(a app.App) audit.Values {
	v := appView(a)
	v["image"] = a.Image
	return v
}

func deploymentView(r deploy.Revision) audit.Values {
	if r.Number == 0 {
		return nil
	}
	v := audit.Values{"revision": r.Number, "image": r.Image, "trigger": string(r.Trigger)}
	for name, text := range map[string]string{"digest": r.Digest, "commit": r.Commit} {
		if text != "" {
			v[name] = text
		}
	}
	if r.Source != 0 {
		v["source_revision"] = r.Source
	}
	if r.SourceEnvironment != "" {
		v["source_environment"] = r.SourceEnvironment
	}
	return v
}

func buildView(b deploy.Build) audit.Values {
	return audit.Values{
		"build": b.Number, "commit": b.Commit,
		"git_source": map[string]string{"repository": b.Source.Repository, "branch": b.Source.Branch, "path": b.Source.Path},
	}
}

func planView(p plan.Plan) audit.Values {
	v := audit.Values{"name": p.Name, "rate": p.Rate, "burst": p.Burst, "quota": nil, "quota_period": nil, "quota_mode": nil}
	if p.Quota != 0 {
		v["quota"], v["quota_period"], v["quota_mode"] = p.Quota, string(p.Period), string(p.Mode())
	}
	return v
}

func keyView(k apikey.Key) audit.Values {
	apps, scope := apikey.ShownScope(k.Apps)
	return audit.Values{
		"environment": k.Environment, "plan": string(k.Plan), "name": k.Name, "apps": apps, "scope": string(scope), "tags": append([]string{}, k.Tags...),
		"status": string(k.Status), "expires_at": timeView(k.ExpiresAt), "previous_secret_expires_at": timeView(k.PreviousUntil),
	}
}

func keyChange(stored, changed apikey.Key) audit.Change {
	c := audit.Change{
		Action: audit.UpdateKey, Project: changed.Project, Resource: keyPath(changed), Besides: environmentPath(changed.Project, changed.Environment),
		Old: keyView(stored), New: keyView(changed),
	}
	switch {
	case changed.Secret != stored.Secret:
		c.Action = audit.RotateKey
		c.New["secret"] = "replaced"
	case changed.Status == apikey.Revoked && stored.Status != apikey.Revoked:
		c.Action = audit.RevokeKey
	}
	return c
}

// leakChange adds the place of the leak, and which secret leaked.
func leakChange(stored, changed apikey.Key, l apikey.Leak) audit.Change {
	c := keyChange(stored, changed)
	c.Action = audit.LeakKey
	c.New["found_at"], c.New["found_in"], c.New["leaked_secret"] = l.URL, l.Source, "current"
	if !stored.Secret.Equal(l.Secret) {
		c.New["leaked_secret"] = "previous"
	}
	return c
}

func tokenView(t servicetoken.Token) audit.Values {
	return audit.Values{"name": t.Name, "role": string(t.Role), "expires_at": timeView(t.ExpiresAt)}
}

// userView shows neither the password nor its hash.
func userView(u user.User) audit.Values {
	return audit.Values{"admin": u.Admin, "state": string(u.State), "session_version": u.Version}
}

func userChange(stored, changed user.User) audit.Change {
	c := audit.Change{Action: audit.UpdateUser, Resource: userPath(changed.Name), Old: userView(stored), New: userView(changed)}
	switch {
	case changed.Hash != stored.Hash:
		c.Action = audit.ChangePassword
	case changed.State == stored.State && changed.Admin == stored.Admin:
		c.Action = audit.EndSessions
	}
	return c
}

func timeView(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}
