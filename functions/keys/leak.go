package keys

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/keys/internal/program"
	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	maxLeaks     = 500     // secrets in a program's report; larger reports are rejected as a whole
	maxLeaksBody = 1 << 20 // bytes in a program's report

	// The memory for bodies of unauthenticated calls, in bytes. The share is per network, so no
	// network can block others.
	leaksBodies = 3 * leaksShare
	leaksShare  = 8 * (maxLeaksBody + 1) // a buffer has one more byte than the body

	leaksRead   = 10 * time.Second // for reading the body of an unauthenticated call
	leaksWork   = 40 * time.Second // for processing a report
	leaksAtOnce = 8                // keys that are processed concurrently

	// The limits of calls by a program, of unauthenticated calls from a network, and of reports by
	// a user.
	programBurst, programEvery   = 120, 200 * time.Millisecond
	unprovenBurst, unprovenEvery = 60, time.Second
	personBurst, personEvery     = 10, 6 * time.Second

	// minResponseTime is the minimum time for the response to a user. It is longer than the
	// processing takes, so the time does not reveal whether a key exists.
	minResponseTime = time.Second
)

const malformed = store.LeakResult("malformed")

type leakReporter struct {
	programs *program.Keys
	proven   *callerLimiter // by program
	unproven *callerLimiter // by network
	people   *callerLimiter
	bodies   *httpapi.Bodies
	floor    time.Duration
	clock    func() time.Time // for deadlines of connections
	results  *prometheus.CounterVec
}

func newLeakReporter(cfg Config, s *Service) *leakReporter {
	now := time.Now // the clock in production
	l := &leakReporter{
		programs: program.New(cfg.LeakPrograms, s.log, now), floor: minResponseTime, clock: now,
		proven:   newCallerLimiter(programBurst, programEvery, "reports of leaked keys"),
		unproven: newCallerLimiter(unprovenBurst, unprovenEvery, "reports without a valid signature"),
		people:   newCallerLimiter(personBurst, personEvery, "reports of leaked keys"),
		bodies:   httpapi.NewBodies(httpapi.BodyQuota{Body: maxLeaksBody, All: leaksBodies, Share: leaksShare, Retry: leaksRead}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_leaked_secrets_total", Help: "Secrets reported as leaked, by reporter (program, person) and result.",
		}, []string{"by", "result"}),
	}
	for _, result := range append(store.LeakResults(), malformed) {
		l.results.WithLabelValues(byProgram, string(result))
		l.results.WithLabelValues(byPerson, string(result))
	}
	return l
}

// The reporters, in metrics.
const (
	byProgram = "program"
	byPerson  = "person"
)

// reportLeaks processes the report of a secret-scanning program. It responds only after all secrets
// are processed. Programs retry after other responses, which is idempotent.
func (s *Service) reportLeaks(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	network := [2]string{reqctx.Network(r.Context())}
	if s.leaks.unproven.spent(network, s.now()) {
		return s.leaks.unproven.takeNamed(network, s.now())
	}
	name, found, err := s.provenLeaks(w, r, network[0])
	if err != nil {
		if name == "" && !problem.Is(err, problem.Unavailable) {
			_ = s.leaks.unproven.takeNamed(network, s.now()) // only counts: this call already has a response
		}
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), leaksWork)
	defer cancel()
	if err := s.endAll(ctx, found, name); err != nil {
		return err
	}
	return httpapi.WriteJSON(w, api.ReportLeaks.Status, wire.LeaksReceived{Received: len(found)})
}

// provenLeaks reads a report, verifies its signature, and then decodes it. name is the program, or
// "" if the signature is invalid.
func (s *Service) provenLeaks(w http.ResponseWriter, r *http.Request, network string) (name string, found []wire.FoundSecret, err error) {
	unsigned := problem.New(problem.Unauthenticated, "A valid signature of a trusted program is required.")
	connection := http.NewResponseController(w) // does nothing without a connection
	_ = connection.SetReadDeadline(s.leaks.clock().Add(leaksRead))
	claim, ok := program.ClaimOf(r.Header)
	if !ok {
		return "", nil, unsigned
	}
	key, err := s.leaks.programs.Find(r.Context(), claim.Identifier)
	if problem.Is(err, problem.Unauthenticated) {
		return "", nil, unsigned
	}
	if err != nil {
		return "", nil, err
	}
	body, free, err := s.leaks.bodies.Read(w, r, network)
	defer free()
	if err != nil {
		return "", nil, err
	}
	_ = connection.SetReadDeadline(time.Time{})
	if !key.Signs(claim, body) {
		return "", nil, unsigned
	}
	name = "program:" + key.Program
	reqctx.SetActor(r.Context(), reqctx.Actor{Kind: reqctx.Program, Name: name})
	if err := s.leaks.proven.takeNamed([2]string{name}, s.now()); err != nil {
		return "", nil, err
	}
	if found, err = parseLeaks(body); err != nil {
		s.log.WarnContext(r.Context(), "leak report rejected", "program", key.Program, "bytes", len(body), "error", err)
	}
	return name, found, err
}

func parseLeaks(body []byte) ([]wire.FoundSecret, error) {
	var found []wire.FoundSecret
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(body, &found); {
	case errors.As(err, &wrong) || err == nil && found == nil:
		return nil, problem.New(problem.WrongType, "The request body must be a list of objects with string fields.")
	case err != nil:
		return nil, problem.FromCode(problem.MalformedJSON) // without the cause, which quotes the body
	case len(found) > maxLeaks:
		return nil, problem.New(problem.BodyTooLarge, "A report can contain at most %d secrets. Split it into several reports.", maxLeaks)
	}
	return found, nil
}

func (s *Service) endAll(ctx context.Context, found []wire.FoundSecret, by string) error {
	seen := map[apikey.Hash]bool{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(leaksAtOnce)
	for _, one := range found {
		l := apikey.Leak{Secret: apikey.HashOf([]byte(one.Token)), At: s.changeTime(), By: by, URL: apikey.FoundAt(one.URL), Source: apikey.FoundAt(one.Source)}
		end, ok := s.ending(one.Token, l, byProgram)
		if ok && !seen[l.Secret] {
			seen[l.Secret] = true
			g.Go(func() error { return end(ctx) })
		}
	}
	return g.Wait()
}

// ending returns the function that processes a full key or a full service token. ok is false if the
// text is neither.
func (s *Service) ending(text string, l apikey.Leak, by string) (end func(context.Context) error, ok bool) {
	if id, ok := servicetoken.Full(text).ID(); ok {
		return func(ctx context.Context) error { return s.endToken(ctx, id, l, by) }, true
	}
	prefix, ok := apikey.Parse([]byte(text))
	if !ok {
		s.leaks.results.WithLabelValues(by, string(malformed)).Inc()
		return nil, false
	}
	return func(ctx context.Context) error { return s.end(ctx, apikey.IDOf(apikey.Prefix(prefix)), l, by) }, true
}

func (s *Service) endToken(ctx context.Context, id servicetoken.ID, l apikey.Leak, by string) error {
	result, err := s.store.ReportTokenLeak(ctx, id, l)
	if err != nil {
		return err
	}
	s.leaks.results.WithLabelValues(by, string(result)).Inc()
	if result != store.LeakUnknown {
		s.log.InfoContext(ctx, "leaked service token revoked", "token_id", string(id), "result", string(result))
	}
	return nil
}

func (s *Service) end(ctx context.Context, id apikey.ID, l apikey.Leak, by string) error {
	result, change, err := s.store.ReportLeak(ctx, id, l)
	if err != nil {
		return err
	}
	s.leaks.results.WithLabelValues(by, string(result)).Inc()
	if result == store.LeakEnded || result == store.LeakRecorded {
		s.log.InfoContext(ctx, "leaked key reported", "key_id", string(id), "result", string(result), "change", change.ID)
	}
	return nil
}

func (s *Service) reportLeak(ctx context.Context, in httpapi.Scope, body wire.ReportLeak) (wire.LeaksReceived, error) {
	if body.Key == nil {
		return wire.LeaksReceived{}, httpapi.Missing("key")
	}
	if err := s.leaks.people.take(in.Caller, s.now()); err != nil {
		return wire.LeaksReceived{}, err
	}
	l := apikey.Leak{Secret: apikey.HashOf([]byte(*body.Key)), At: s.changeTime(), By: in.Caller.Username, URL: apikey.FoundAt(body.URL)}
	end, ok := s.ending(*body.Key, l, byPerson)
	if !ok {
		return wire.LeaksReceived{}, problem.ForField("key",
			problem.New(problem.InvalidParameter, "key must be a full API key or service token. A part is missing or a character is wrong."))
	}
	floor := time.NewTimer(s.leaks.floor)
	defer floor.Stop()
	err := end(ctx)
	select {
	case <-floor.C:
	case <-ctx.Done():
	}
	return wire.LeaksReceived{Received: 1}, err
}

func wireLeak(k apikey.Key) *wire.KeyLeak {
	if k.Leak == nil {
		return nil
	}
	l := wire.KeyLeak{At: k.Leak.At, By: k.Leak.By, FoundAt: k.Leak.URL, FoundIn: k.Leak.Source, Secret: wire.LeakedEnded}
	if k.Exposed() {
		l.Secret = wire.LeakedCurrent
	}
	return &l
}
