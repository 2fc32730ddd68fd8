package identity

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/trace"
)

// Sessions tells which sessions were ended before their time, and which service tokens
// there are; *store.Store implements it.
type Sessions interface {
	// SignedOut tells whether the session with this token id is over: its id was
	// signed out, its user is gone, or the user's password is no longer the
	// version that the session was opened with.
	SignedOut(ctx context.Context, tokenID, username string, version int64) (bool, error)

	// ServiceToken reads one. Problem: not_found.
	ServiceToken(ctx context.Context, id servicetoken.ID) (servicetoken.Token, error)

	// UseToken keeps when a service token was last used.
	UseToken(ctx context.Context, t servicetoken.Token, at time.Time) error
}

// Guard answers who makes a request.
type Guard struct {
	keys     *Keyring
	sessions Sessions
}

// NewGuard makes a guard: keys verify session tokens, sessions tells the ended ones.
func NewGuard(keys *Keyring, sessions Sessions) *Guard { return &Guard{keys: keys, sessions: sessions} }

// Session authenticates a request, and says so to all that works for it (package
// trace). Problems: unauthenticated; csrf_required for
// a change by cookie without the CSRF value; unavailable.
//
// Of several cookies those that open nothing are passed over, so that a dead or forged
// one beside one's own does no harm. Good ones of two people are nobody's: the other is
// somebody who wants this one to work in their name.
//
// A service token is taken as a bearer token alone.
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
	var refused error = problem.Of(problem.Unauthenticated)
	for _, t := range tokens {
		s, err := g.open(r.Context(), t)
		switch {
		case problem.Is(err, problem.Unauthenticated):
			refused = err
			continue
		case err != nil:
			return Session{}, err
		case found.ID != "" && found.Caller.Username != s.Caller.Username:
			return Session{}, problem.Of(problem.Unauthenticated)
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
		return Session{}, problem.Of(problem.CSRFRequired)
	}
	trace.Identify(r.Context(), trace.Actor{Kind: trace.User, Name: found.Caller.Username})
	return found, nil
}

// open is the session of a token, if it has not ended. Problems: unauthenticated,
// unavailable.
func (g *Guard) open(ctx context.Context, t Token) (Session, error) {
	s, err := g.keys.Verify(t)
	if err != nil {
		return Session{}, err
	}
	over, err := g.sessions.SignedOut(ctx, s.ID, s.Caller.Username, s.Version)
	if err != nil {
		return Session{}, fmt.Errorf("session of %s: %w", s.Caller.Username, err)
	}
	if over {
		return Session{}, problem.Of(problem.Unauthenticated)
	}
	return s, nil
}

// service is the session of a service token, which it says to all that works for the
// request. What has no token's shape is refused without a look at the store. That the
// use is not written down is no reason to refuse it. Problems: unauthenticated, the same
// whatever is wrong with the token; unavailable.
func (g *Guard) service(ctx context.Context, full servicetoken.Full) (Session, error) {
	id, ok := full.ID()
	if !ok {
		return Session{}, problem.Of(problem.Unauthenticated)
	}
	t, err := g.sessions.ServiceToken(ctx, id)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return Session{}, fmt.Errorf("service token %s: %w", id, err)
	}
	now := g.keys.now()
	if err != nil || !t.Opens(full, now) {
		return Session{}, problem.Of(problem.Unauthenticated)
	}
	if t.UseDue(now) {
		_ = g.sessions.UseToken(ctx, t, now.UTC()) // another process has written it, or the next use will be
	}
	c := Caller{Username: t.Actor(), Grant: Grant{Token: t.ID, Name: t.Name, Project: t.Project, Role: t.Role}}
	trace.Identify(ctx, trace.Actor{Kind: trace.Token, Name: c.Username})
	return Session{ID: string(t.ID), Caller: c, IssuedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt}, nil
}

// credentials finds the tokens of a request and whether cookies carried them. An
// Authorization header of another scheme is none of ours: a proxy may want it. Two
// bearer tokens are refused: whoever sends them knows which one is meant.
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
	return nil, false, problem.Of(problem.Unauthenticated)
}

// changes tells whether a method may change something (RFC 9110 section 9.2.1).
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
