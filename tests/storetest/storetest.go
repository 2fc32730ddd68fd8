// Package storetest provides a Firestore emulator to tests. Each test has its own project, so tests
// can run in parallel.
package storetest

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	client "cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/emulators/firestore"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/deploy"
	"github.com/sluicegate/sluice/shared/identity/user"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
)

const hostVariable = "FIRESTORE_EMULATOR_HOST"

// start starts an emulator for this process unless hostVariable is set.
var start = sync.OnceValue(func() error {
	if os.Getenv(hostVariable) == "" {
		server, err := firestore.Start(context.Background(), firestore.Options{})
		if err != nil {
			return err
		}
		if err := os.Setenv(hostVariable, server.Host); err != nil {
			return err
		}
	}
	return warm()
})

// warm waits until the emulator responds within a store's timeout. The first calls are slower if
// many emulators start at once.
func warm() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	s, err := store.Open(ctx, "warm")
	if err != nil {
		return err
	}
	for {
		err = within(ctx, 3*time.Second, func(ctx context.Context) error {
			return s.CreateUser(ctx, user.User{Name: "first", Version: 1})
		})
		if err == nil || problem.Is(err, problem.AlreadyExists) || ctx.Err() != nil {
			return errors.Join(ctx.Err(), s.Close())
		}
	}
}

func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// Project starts an emulator if necessary, and returns the ID of an empty project.
func Project(t testing.TB) string {
	t.Helper()
	if err := start(); err != nil {
		t.Fatalf("start the Firestore emulator: %v", err)
	}
	return "test-" + strings.ToLower(rand.Text()[:16])
}

// New returns a store with an empty project. It is closed when the test ends.
func New(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, Project(t))
}

// Open returns a store with the project. It is closed when the test ends.
func Open(t testing.TB, project string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), project)
	check.OK(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

// Environment creates a project and an environment unless they exist. Olga owns the project, ada is
// a developer and vera a viewer.
func Environment(t testing.TB, s *store.Store, project, name string) {
	t.Helper()
	EnvironmentOf(t, s, app.Project{
		Name: project, Members: map[string]app.Role{"olga": app.Owner, "ada": app.Developer, "vera": app.Viewer},
		CreatedAt: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
	}, name)
}

// EnvironmentOf creates a project and an environment unless they exist.
func EnvironmentOf(t testing.TB, s *store.Store, p app.Project, name string) {
	t.Helper()
	unlessThere := func(create func() error) {
		t.Helper()
		Make(t, func() error {
			err := create()
			if problem.Is(err, problem.AlreadyExists) {
				return nil
			}
			return err
		})
	}
	unlessThere(func() error { return s.CreateProject(t.Context(), p) })
	namespace, err := app.Namespace(p.Name, name)
	check.OK(t, err)
	unlessThere(func() error {
		return s.CreateEnvironment(t.Context(), app.Environment{Project: p.Name, Name: name, Namespace: namespace, CreatedAt: p.CreatedAt})
	})
}

// App creates an app, with a revision of its image if it has one. It sets missing fields.
func App(t testing.TB, s *store.Store, a app.App) app.App {
	t.Helper()
	a.Namespace = a.Project + "-" + a.Environment
	a.Host = cmp.Or(a.Host, a.Name+"."+a.Namespace)
	a.Port = cmp.Or(a.Port, 8080)
	Make(t, func() error { return s.CreateApp(t.Context(), a, First(a)) })
	return a
}

// Make calls create, and retries while the emulator is unavailable. An unavailable call may have
// succeeded.
func Make(t testing.TB, create func() error) {
	t.Helper()
	err := create()
	for tries := 1; problem.Is(err, problem.Unavailable) && tries < 3; tries++ {
		if err = create(); problem.Is(err, problem.AlreadyExists) {
			return
		}
	}
	check.OK(t, err)
}

// DeleteApp deletes the app with the current name.
func DeleteApp(ctx context.Context, s *store.Store, ref app.Ref) error {
	a, err := s.App(ctx, ref.Namespace, ref.Name)
	if err != nil {
		return fmt.Errorf("delete app: %w", err)
	}
	return s.DeleteApp(ctx, a)
}

// DeleteEnvironment deletes the environment with the current name.
func DeleteEnvironment(ctx context.Context, s *store.Store, project, name string) error {
	e, err := s.Environment(ctx, project, name)
	if err != nil {
		return fmt.Errorf("delete environment: %w", err)
	}
	return s.DeleteEnvironment(ctx, e)
}

// DeleteProject deletes the project with the current name.
func DeleteProject(ctx context.Context, s *store.Store, name string) error {
	p, err := s.Project(ctx, name)
	if err != nil {
		return fmt.Errorf("delete project: %w", err)
	}
	return s.DeleteProject(ctx, p)
}

// ObserveBuild observes the build with the current number.
func ObserveBuild(ctx context.Context, s *store.Store, ref app.Ref, n int64, run deploy.Run, now time.Time) (deploy.Build, error) {
	b, err := s.Build(ctx, ref, n)
	if err != nil {
		return deploy.Build{}, fmt.Errorf("observe build: %w", err)
	}
	return s.ObserveBuild(ctx, ref, b, run, now)
}

// CopyKey creates n copies of a stored key, each with its own prefix.
func CopyKey(t testing.TB, project string, id apikey.ID, n int) {
	t.Helper()
	copyOf(t, project, "keys", id, n)
}

// CopyEntry adds the copies of [CopyKey] to the list of keys. Their entries equal that of the
// stored key, so a search finds them only by its ID.
func CopyEntry(t testing.TB, project string, id apikey.ID, n int) {
	t.Helper()
	copyOf(t, project, "keylist", id, n)
}

// CopyRollup adds copies of a key's rollup for the copies of [CopyKey].
func CopyRollup(t testing.TB, project string, id apikey.ID, n int) {
	t.Helper()
	copyOf(t, project, "rollups", id, n)
}

func copyOf(t testing.TB, project, collection string, id apikey.ID, n int) {
	t.Helper()
	c, err := client.NewClient(t.Context(), project)
	check.OK(t, err)
	defer func() { _ = c.Close() }()
	keys := c.Collection(collection)
	snap, err := keys.Doc(string(id)).Get(t.Context())
	check.OK(t, err)
	for i := 0; i < n; {
		batch := c.BulkWriter(t.Context())
		var jobs []*client.BulkWriterJob
		for ; i < n && len(jobs) < 500; i++ {
			k := apikey.Key{Prefix: apikey.Prefix(fmt.Sprintf("c%07d", i))}
			fields := maps.Clone(snap.Data())
			if collection == "keys" {
				fields["prefix"] = string(k.Prefix)
			}
			job, err := batch.Create(keys.Doc(string(k.ID())), fields)
			check.OK(t, err)
			jobs = append(jobs, job)
		}
		batch.End()
		for _, job := range jobs {
			if _, err := job.Results(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Damage replaces a document by an unreadable one. fields are the fields used by queries.
func Damage(t testing.TB, project, path string, fields map[string]any) {
	t.Helper()
	c, err := client.NewClient(t.Context(), project)
	check.OK(t, err)
	defer func() { _ = c.Close() }()
	d := map[string]any{"counts": []byte("damaged"), "days": []byte("damaged")}
	maps.Copy(d, fields)
	if _, err := c.Doc(path).Set(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// Change sets fields of a document, or deletes it if fields is nil.
func Change(t testing.TB, project, path string, fields map[string]any) {
	t.Helper()
	c, err := client.NewClient(t.Context(), project)
	check.OK(t, err)
	defer func() { _ = c.Close() }()
	if fields == nil {
		_, err = c.Doc(path).Delete(t.Context())
	} else {
		_, err = c.Doc(path).Set(t.Context(), fields, client.MergeAll)
	}
	check.OK(t, err)
}

// First returns the default initial history of an app.
func First(a app.App) store.InitialState { return store.InitialState{Revision: deploy.First(a)} }
