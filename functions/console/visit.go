package console

import (
	"context"
	"crypto/subtle"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// visit is one request of somebody who is signed in, or believes so: whether the
// session is good is known once frame has answered.
type visit struct {
	s   *Service
	w   http.ResponseWriter
	r   *http.Request
	ctx context.Context //nolint:containedctx // a visit is one request, and lives as long
	api *client.Client  // signed in

	project, environment string // of the path, "" outside of one

	frame func() (frame, error) // waits for it; the same each time
}

// frame is what every page of a visit shows around its content.
type frame struct {
	User         wire.User
	CSRF         string // of the session, in every form
	Project      wire.Project
	Environments []wire.Environment // of the project, for the switcher
	Environment  string
}

// Can tells whether the visitor's role in the project allows what needs a role,
// e.g. "developer". Pages leave out what it does not; the API decides.
func (f frame) Can(need string) bool { return app.Role(f.Project.Role).Allows(app.Role(need)) }

// visited lets do answer the requests of who has a session. What the frame shows is
// asked for at the same time as what the page shows.
func (s *Service) visited(do func(v *visit) error) httpapi.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		token, ok := s.sessionToken(r)
		if !ok {
			s.toSignIn(w, r)
			return nil
		}
		ctx, cancel := context.WithCancel(r.Context())
		v := &visit{
			s: s, w: w, r: r, ctx: ctx, api: s.api.WithToken(token),
			project: r.PathValue("project"), environment: r.PathValue("environment"),
		}
		wait := v.begin(ctx)
		defer wait() //nolint:errcheck // whoever needed the frame has seen its error
		defer cancel()
		if err := do(v); err != nil {
			s.fail(v, err)
		}
		return nil
	}
}

// begin asks for the frame, and gives what waits for it.
func (v *visit) begin(ctx context.Context) (wait func() error) {
	var f frame
	f.Environment = v.environment
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		session, err := v.api.WhoAmI(ctx)
		if err == nil {
			f.User, f.CSRF = session.User, session.CSRFToken
			trace.Identify(ctx, trace.Actor{Kind: trace.User, Name: session.User.Username}) // for the log
		}
		return err
	})
	if v.project != "" {
		g.Go(func() (err error) {
			f.Project, err = v.api.Project(ctx, v.project)
			return err
		})
		g.Go(func() error {
			list, err := v.api.EnvironmentsPage(ctx, v.project, client.Page{})
			f.Environments = list.Items
			return err
		})
	}
	wait = sync.OnceValue(g.Wait)
	v.frame = func() (frame, error) {
		err := wait()
		return f, err
	}
	return wait
}

// sessionToken is the session of a request's cookie. Of several it is the first good
// one, and none if there are good ones of two people, as the API has it (see
// identity.Guard).
func (s *Service) sessionToken(r *http.Request) (client.Token, bool) {
	tokens := identity.Cookies(r)
	if len(tokens) == 1 {
		return client.Token(tokens[0]), true
	}
	var found client.Token
	var owner string
	for _, t := range tokens {
		who, err := s.api.WithToken(client.Token(t)).WhoAmI(r.Context())
		switch {
		case err != nil: // it is dead, or the page will tell that the API is away
		case found == "":
			found, owner = client.Token(t), who.User.Username
		case owner != who.User.Username:
			return "", false
		}
	}
	return found, found != ""
}

// ownForm refuses a form that does not carry the session's CSRF value, or cannot be
// read.
func (v *visit) ownForm() error {
	if v.r.ParseForm() != nil {
		return unreadable()
	}
	f, err := v.frame()
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(v.r.PostForm.Get("csrf")), []byte(f.CSRF)) != 1 || f.CSRF == "" {
		return troubled{
			Status: http.StatusForbidden, Title: "That form is out of date",
			Text: "It belongs to an earlier session, so nothing was done. Go back, load the page again and repeat it.",
		}
	}
	return nil
}

// typed is a form's field, as it was sent.
func (v *visit) typed(name string) string { return v.r.PostForm.Get(name) }

// inProject and inEnvironment are paths of the visit's project and environment.
func (v *visit) inProject(rest ...string) string {
	return at(append([]string{"projects", v.project}, rest...)...)
}

func (v *visit) inEnvironment(rest ...string) string {
	return at(append([]string{"projects", v.project, "environments", v.environment}, rest...)...)
}
