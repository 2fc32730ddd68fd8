package identity

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
)

// Sessions queries the store; *store.Store implements it.
type Sessions interface {
	// Standing returns the current rights of a session. It is over if it was signed out, or if its
	// user does not exist, is not active, or has another version.
	Standing(ctx context.Context, tokenID, username string, version int64) (user.Standing, error)

	// ServiceToken returns a not_found problem if the token does not exist.
	ServiceToken(ctx context.Context, id servicetoken.ID) (servicetoken.Token, error)

	// UseToken stores the time of a token's last use.
	UseToken(ctx context.Context, t servicetoken.Token, at time.Time) error
}

// Guard authenticates requests.
type Guard struct {
	keys     *Keyring
	sessions Sessions
}

// NewGuard returns a guard.
func NewGuard(keys *Keyring, sessions Sessions) *Guard { return &Guard{keys: keys, sessions: sessions} }

// Session authenticates a request and sets its actor ([reqctx.SetActor]). It ignores invalid cookies
// if one is valid. It rejects valid cookies of two users, because one may come from an attacker.
//
// It returns an unauthenticated problem, a csrf_required problem for a change by cookie without
// the CSRF value, or an unavailable problem.
func (g *Guard) Session(r *http.Request) (Session, error) {
	tokens, byCookie, err := credentials(r)
	if err != nil {
		return Session{}, err
	}
	if !byCookie && servicetoken.Claims(string(tokens[0])) {
		return g.service(r.Context(), servicetoken.Full(tokens[0]))
	}
	csrf := r.Header.Get(CSRFHeader)
	var found Session
	var refused error = problem.FromCode(problem.Unauthenticated)
	for _, t := range tokens {
		s, err := g.open(r.Context(), t)
		switch {
		case problem.Is(err, problem.Unauthenticated):
			refused = err
			continue
		case err != nil:
			return Session{}, err
		case found.ID != "" && found.Caller.Username != s.Caller.Username:
			return Session{}, problem.FromCode(problem.Unauthenticated)
		}
		if found.ID == "" || sameSecret(csrf, s.CSRF) {
			found = s
		}
	}
	if found.ID == "" {
		return Session{}, refused
	}
	found.Forgeable = byCookie && !sameSecret(csrf, found.CSRF)
	if found.Forgeable && changes(r.Method) {
		return Session{}, problem.FromCode(problem.CSRFRequired)
	}
	reqctx.SetActor(r.Context(), reqctx.Actor{Kind: reqctx.User, Name: found.Caller.Username})
	return found, nil
}

func (g *Guard) open(ctx context.Context, t Token) (Session, error) {
	s, err := g.keys.Verify(t)
	if err != nil {
		return Session{}, err
	}
	now, err := g.sessions.Standing(ctx, s.ID, s.Caller.Username, s.Version)
	if err != nil {
		return Session{}, fmt.Errorf("session of %s: %w", s.Caller.Username, err)
	}
	if now.Over {
		return Session{}, problem.FromCode(problem.Unauthenticated)
	}
	s.Caller.Admin = now.Admin
	return s, nil
}

func (g *Guard) service(ctx context.Context, full servicetoken.Full) (Session, error) {
	id, ok := full.ID()
	if !ok {
		return Session{}, problem.FromCode(problem.Unauthenticated)
	}
	t, err := g.sessions.ServiceToken(ctx, id)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return Session{}, fmt.Errorf("service token %s: %w", id, err)
	}
	now := g.keys.now()
	if err != nil || !t.Opens(full, now) {
		return Session{}, problem.FromCode(problem.Unauthenticated)
	}
	if t.UseDue(now) {
		_ = g.sessions.UseToken(ctx, t, now.UTC()) // an error does not fail the request
	}
	c := Caller{Username: t.Actor(), Grant: Grant{Token: t.ID, Name: t.Name, Project: t.Project, Role: t.Role}}
	reqctx.SetActor(ctx, reqctx.Actor{Kind: reqctx.Token, Name: c.Username})
	return Session{ID: string(t.ID), Caller: c, IssuedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt}, nil
}

// credentials returns the bearer token or the session cookies of a request. It ignores other
// Authorization schemes, which a proxy may need, and rejects two bearer tokens.
func credentials(r *http.Request) (tokens []Token, byCookie bool, err error) {
	var bearers []string
	for _, v := range r.Header.Values("Authorization") {
		scheme, value, _ := strings.Cut(v, " ")
		if strings.EqualFold(scheme, "Bearer") {
			bearers = append(bearers, strings.TrimSpace(value))
		}
	}
	if len(bearers) == 1 {
		return []Token{Token(bearers[0])}, false, nil
	}
	if tokens = Cookies(r); len(bearers) == 0 && len(tokens) > 0 {
		return tokens, true, nil
	}
	return nil, false, problem.FromCode(problem.Unauthenticated)
}

func changes(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return false
	}
	return true
}

func sameSecret(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
