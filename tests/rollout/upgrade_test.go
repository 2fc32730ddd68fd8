package rollout

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const previousRelease = "7c0a9d8"

// TestUpgrade replaces every function by its previous release and then by this release. During the
// upgrade no response is wrong and no gate leaves "engaged". The previous release rewrites all
// routes when it starts, so gates may be pending then; they still deny.
func TestUpgrade(t *testing.T) {
	long.Only(t)
	s := stacktest.New(t, world)
	old := buildFunctions(t, previousRelease)
	var apps []string
	for i := range 5 {
		apps = append(apps, "hello-"+strconv.Itoa(i))
		s.GatedApp(apps[i])
	}
	k := s.AnyKey()
	s.Opens(apps[0], k)
	load := begin(t, s, apps[0], k)
	documents := stacktest.Store(t, world).Collection("apps").Where("project", "==", s.Project)

	world.UsePrograms(old)
	t.Cleanup(func() { world.UsePrograms("") })
	replaceAll(t, load)
	// The API of the previous release differs.
	s.Until("have all gates engaged", func() bool {
		all, err := documents.Where("gate.state", "==", "engaged").Documents(t.Context()).GetAll()
		return err == nil && len(all) == len(apps)
	})
	left := followGates(t, documents)
	world.UsePrograms("")
	replaceAll(t, load)
	for _, app := range apps {
		s.WaitGate(app, "engaged")
	}
	if left := left(); len(left) > 0 {
		t.Errorf("gates left engaged: %v", left)
	}
	wrong := map[string]int{}
	for _, a := range load.stop() {
		switch {
		case a.key == "" && a.status != http.StatusUnauthorized:
			wrong["without a key: "+strconv.Itoa(a.status)+" "+a.code]++
		case a.key != "" && a.status != http.StatusOK:
			wrong["with a key: "+strconv.Itoa(a.status)+" "+a.code]++
		}
	}
	if len(wrong) > 0 {
		t.Errorf("unexpected responses: %v", wrong)
	}
}

func buildFunctions(t *testing.T, commit string) string {
	t.Helper()
	root, dir := stacktest.Checkout(t, commit), t.TempDir()
	mains, err := filepath.Glob(filepath.Join(root, "functions", "*", "cmd"))
	if err != nil || len(mains) == 0 {
		t.Fatalf("functions of %s: %v, %v", commit, mains, err)
	}
	for _, main := range mains {
		name := filepath.Base(filepath.Dir(main))
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-w", "-o", filepath.Join(dir, name), main)
		build.Dir = root
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s of %s: %v\n%s", name, commit, err, out)
		}
	}
	return dir
}

// replaceAll replaces the checkers one by one, then the other functions.
func replaceAll(t *testing.T, load *traffic) {
	t.Helper()
	check.OK(t, world.Roll(t.Context()))
	var names []string
	for name := range world.Info().Functions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		check.OK(t, world.Restart(t.Context(), name))
	}
	load.runFor(5 * time.Second)
}

// followGates watches the gates of apps. The returned function ends this and returns the apps
// whose gate was not always "engaged".
func followGates(t *testing.T, apps firestore.Query) func() []string {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	query := apps.Snapshots(ctx)
	if _, err := query.Next(); err != nil {
		t.Fatal(err)
	}
	var left []string
	var done sync.WaitGroup
	done.Go(func() {
		defer query.Stop()
		for {
			snapshot, err := query.Next()
			if err != nil {
				return
			}
			for _, c := range snapshot.Changes {
				if state, _ := c.Doc.DataAtPath(firestore.FieldPath{"gate", "state"}); state != "engaged" {
					left = append(left, c.Doc.Ref.ID)
				}
			}
		}
	})
	return func() []string {
		end()
		done.Wait()
		return left
	}
}
