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
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	// maxLeaks and maxLeaksBody bound what a program sends at once, in secrets and in bytes.
	// More is refused as a whole, so that it knows that nothing of it was taken.
	maxLeaks     = 500
	maxLeaksBody = 1 << 20

	// leaksBodies bounds the bodies that are held before their sender has proven itself, and
	// leaksShare those from one network, in bytes: nobody keeps the others out.
	leaksBodies = 3 * leaksShare
	leaksShare  = 8 * (maxLeaksBody + 1) // a buffer has room for one byte more than the body

	// leaksRead is for the body of a call that has proven nothing yet, and leaksWork for what
	// it asks for, at leaksAtOnce keys at one time.
	leaksRead   = 10 * time.Second
	leaksWork   = 40 * time.Second
	leaksAtOnce = 8

	// A program's calls, those of a network that prove nothing, and a person's reports: so
	// many at once, and then so often.
	programBurst, programEvery   = 120, 200 * time.Millisecond
	unprovenBurst, unprovenEvery = 60, time.Second
	personBurst, personEvery     = 10, 6 * time.Second

	// answerFloor is how long the answer to a person's report takes at least: longer than to
	// end a key, so that the time does not tell whether there is one.
	answerFloor = time.Second
)

// malformed is the result of a text that is neither a full key nor a full service token, by its
// checksum.
const malformed = store.LeakResult("malformed")

// leaks takes reports of keys that were found where strangers can read them.
type leaks struct {
	programs *program.Keys
	proven   *callers // programs
	unproven *callers // by network
	people   *callers
	bodies   *httpapi.Bodies
	floor    time.Duration
	clock    func() time.Time // of connections, which have no other
	results  *prometheus.CounterVec
}

func newLeaks(cfg Config, s *Service) *leaks {
	now := time.Now // the clock in production
	l := &leaks{
		programs: program.New(cfg.LeakPrograms, s.log, now), floor: answerFloor, clock: now,
		proven:   newCallers(programBurst, programEvery, "reports of leaked keys"),
		unproven: newCallers(unprovenBurst, unprovenEvery, "reports without a good signature"),
		people:   newCallers(personBurst, personEvery, "reports of leaked keys"),
		bodies:   httpapi.NewBodies(httpapi.BodyQuota{Body: maxLeaksBody, All: leaksBodies, Share: leaksShare, Retry: leaksRead}),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_leaked_secrets_total", Help: "Secrets that were reported as leaked, by who reported them (program, person) and what became of them.",
		}, []string{"by", "result"}),
	}
	for _, result := range append(store.LeakResults(), malformed) {
		l.results.WithLabelValues(byProgram, string(result))
		l.results.WithLabelValues(byPerson, string(result))
	}
	return l
}

// Who reports, in metrics.
const (
	byProgram = "program"
	byPerson  = "person"
)

// reportLeaks takes the list of a secret-scanning program. It is answered alike whatever has
// become of it, and only once all of it is done: on any other answer the program may send it
// again, which changes nothing that was done.
func (s *Service) reportLeaks(w http.ResponseWriter, r *http.Request, in httpapi.Scope) error {
	network := [2]string{trace.Network(r.Context())}
	if s.leaks.unproven.spent(network, s.now()) {
		return s.leaks.unproven.takeNamed(network, s.now())
	}
	name, found, err := s.provenLeaks(w, r, network[0])
	if err != nil {
		if name == "" && !problem.Is(err, problem.Unavailable) {
			_ = s.leaks.unproven.takeNamed(network, s.now()) // counts; this call is answered already
		}
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), leaksWork)
	defer cancel()
	if err := s.endAll(ctx, found, name); err != nil {
		return err
	}
	return httpapi.JSON(w, api.ReportLeaks.Status, wire.LeaksReceived{Received: len(found)})
}

// provenLeaks reads what a call reports, and who signs it, by name where that is proven:
// nothing of the body is looked at before. Problems: unauthenticated, always the same; unavailable;
// rate_limited; body_too_large, malformed_json, wrong_type.
func (s *Service) provenLeaks(w http.ResponseWriter, r *http.Request, network string) (name string, found []wire.FoundSecret, err error) {
	unsigned := problem.New(problem.Unauthenticated, "The signature of a program that this installation trusts is required.")
	connection := http.NewResponseController(w) // where there is no connection there is nothing to bound
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
	trace.Identify(r.Context(), trace.Actor{Kind: trace.Program, Name: name})
	if err := s.leaks.proven.takeNamed([2]string{name}, s.now()); err != nil {
		return "", nil, err
	}
	if found, err = parseLeaks(body); err != nil {
		s.log.WarnContext(r.Context(), "report of leaks refused", "program", key.Program, "bytes", len(body), "error", err)
	}
	return name, found, err
}

// parseLeaks reads a program's list. Problems: malformed_json, wrong_type, body_too_large.
func parseLeaks(body []byte) ([]wire.FoundSecret, error) {
	var found []wire.FoundSecret
	var wrong *json.UnmarshalTypeError
	switch err := json.Unmarshal(body, &found); {
	case errors.As(err, &wrong) || err == nil && found == nil:
		return nil, problem.New(problem.WrongType, "The request body must be a list of objects, whose fields are strings.")
	case err != nil:
		return nil, problem.Of(problem.MalformedJSON) // its cause would quote what was sent
	case len(found) > maxLeaks:
		return nil, problem.New(problem.BodyTooLarge, "A report has at most %d secrets; send them in several.", maxLeaks)
	}
	return found, nil
}

// endAll does what is to be done about all that a program has found. One that is there more
// than once is looked at once.
func (s *Service) endAll(ctx context.Context, found []wire.FoundSecret, by string) error {
	seen := map[apikey.Hash]bool{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(leaksAtOnce)
	for _, one := range found {
		l := apikey.Leak{Secret: apikey.HashOf([]byte(one.Token)), At: s.moment(), By: by, URL: apikey.FoundAt(one.URL), Source: apikey.FoundAt(one.Source)}
		end, ok := s.ending(one.Token, l, byProgram)
		if ok && !seen[l.Secret] {
			seen[l.Secret] = true
			g.Go(func() error { return end(ctx) })
		}
	}
	return g.Wait()
}

// ending returns the function that ends a full key or a full service token. ok is false if the
// text is neither.
func (s *Service) ending(text string, l apikey.Leak, by string) (end func(context.Context) error, ok bool) {
	if id, ok := servicetoken.Full(text).ID(); ok {
		return func(ctx context.Context) error { return s.endToken(ctx, id, l, by) }, true
	}
	prefix, ok := apikey.Parse([]byte(text))
	if !ok { // as anybody can tell without asking
		s.leaks.results.WithLabelValues(by, string(malformed)).Inc()
		return nil, false
	}
	return func(ctx context.Context) error { return s.end(ctx, apikey.IDOf(apikey.Prefix(prefix)), l, by) }, true
}

// endToken revokes a service token that has leaked.
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

// end ends a secret of a key that has leaked.
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

// reportLeak takes the report of a person, or of a service token. Problems: missing_field,
// invalid_parameter, rate_limited.
func (s *Service) reportLeak(ctx context.Context, in httpapi.Scope, body wire.ReportLeak) (wire.LeaksReceived, error) {
	if body.Key == nil {
		return wire.LeaksReceived{}, httpapi.Missing("key")
	}
	if err := s.leaks.people.take(in.Caller, s.now()); err != nil {
		return wire.LeaksReceived{}, err
	}
	l := apikey.Leak{Secret: apikey.HashOf([]byte(*body.Key)), At: s.moment(), By: in.Caller.Username, URL: apikey.FoundAt(body.URL)}
	end, ok := s.ending(*body.Key, l, byPerson)
	if !ok {
		return wire.LeaksReceived{}, problem.At("key",
			problem.New(problem.InvalidParameter, "key must be a full API key or a full service token: it is not whole, or a character is wrong."))
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

// wireLeak is what a key's members are shown of its leak.
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
