package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/event"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

func OpenIntercepted(ctx context.Context, project string, through grpc.StreamClientInterceptor) (*Store, error) {
	return openWith(ctx, project, grpc.WithStreamInterceptor(through))
}

func OpenAnswered(ctx context.Context, project string, through grpc.UnaryClientInterceptor) (*Store, error) {
	return openWith(ctx, project, grpc.WithUnaryInterceptor(through))
}

func OpenCounted(ctx context.Context, project string, unary grpc.UnaryClientInterceptor, stream grpc.StreamClientInterceptor) (*Store, error) {
	return openWith(ctx, project, grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream))
}

func openWith(ctx context.Context, project string, through ...grpc.DialOption) (*Store, error) {
	db, err := fire.Open(ctx, project, through...)
	if err != nil {
		return nil, err
	}
	return &Store{db: db, now: time.Now}, nil
}

func (s *Store) docAt(path string) fire.Ref {
	collection, id, _ := strings.Cut(path, "/")
	return s.db.Collection(collection).Doc(id)
}

func (s *Store) Put(ctx context.Context, t testing.TB, at string, fields map[string]any) {
	t.Helper()
	if _, err := s.docAt(at).Set(ctx, fields); err != nil {
		t.Fatalf("put %s: %v", at, err)
	}
}

// Copy copies a document's fields to another path.
func (s *Store) Copy(ctx context.Context, t testing.TB, from, to string) {
	t.Helper()
	doc, err := s.docAt(from).Get(ctx)
	var fields map[string]any
	if err == nil {
		err = doc.Decode(&fields)
	}
	if err == nil {
		_, err = s.docAt(to).Set(ctx, fields)
	}
	if err != nil {
		t.Fatalf("copy %s to %s: %v", from, to, err)
	}
}

func (s *Store) SetClock(now func() time.Time) { s.now = now }

// Documents returns a document of each kind, with all optional fields.
func Documents(at time.Time) map[string]any {
	k := apikey.Key{Leak: &apikey.Leak{At: at}, PreviousUntil: at, ExpiresAt: at, Tags: []string{"batch"}}
	p := app.Project{LeakPolicy: apikey.LeakDisable, Registries: []string{"registry.example.com"}}
	return map[string]any{
		"announcement": announcementDoc{Key: &announcedKeyDoc{}, Quota: &event.Quota{}, Gate: &announcedGateDoc{}, Gates: &event.Gates{}},

		"canary":   canaryDoc{Canary: Canary{Features: []checkers.Feature{"feature"}}, Status: canaryStatus},
		"delivery": deliveryDoc{},
		"keylist":  listDoc{},
		"record":   recordDoc{PlanAt: &at},
		"summary":  summaryDoc{},
		"used":     usedDoc{Parts: 1, Attention: []apikey.Prefix{"ab12cd34"}},

		"app":         appDoc{App: app.App{GitSource: &app.GitSource{}, Preflight: app.PreflightApp, Trusts: []app.Trust{{}}}},
		"build":       deploy.Build{},
		"deployment":  recordedDoc{Record: "attempt"},
		"environment": app.Environment{},
		"key":         keyToDoc(k),
		"plan":        planToDoc(plan.Plan{}),
		"project":     projectToDoc(p),
		"receipt":     receiptToDoc(hook.Receipt{}),
		"token":       tokenToDoc(servicetoken.Token{LastUsed: at}),
		"user":        userToDoc(user.User{}),
	}
}
