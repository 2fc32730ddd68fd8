// Package contract tests the shipped images of the functions. It builds, pushes, pulls and
// unpacks them, and starts them as a container engine would: with the image's entry point, user,
// environment and (as root) root directory. This detects missing files and settings.
//
// The functions must fulfill the contract of the functions framework and of their platforms, and
// start fast. Their settings come from infra/openfaas/stack.yaml.
package contract

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/sluicegate/sluice/tests/clustertest"
)

var checkout = filepath.Join("..", "..")

var shipped map[string]*image

var programs struct {
	dir     string
	release string // scripts/release
	bare    string // testdata/bare
	hosted  string // ./framework
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	reg := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0))))
	defer reg.Close()
	dir, err := os.MkdirTemp("", "sluice-contract-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := prepare(context.Background(), dir, strings.TrimPrefix(reg.URL, "http://")+"/sluice"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return clustertest.Main(m)
}

func prepare(ctx context.Context, dir, prefix string) error {
	if err := os.Chmod(dir, 0o755); err != nil { // readable by the images' user
		return err
	}
	programs.dir = dir
	programs.release, programs.bare, programs.hosted = filepath.Join(dir, "release"), filepath.Join(dir, "bare"), filepath.Join(dir, "hosted")
	for out, pkg := range map[string]string{
		programs.release: "./scripts/release", programs.bare: "./tests/contract/testdata/bare", programs.hosted: "./tests/contract/framework",
	} {
		if err := command(ctx, checkout, nil, "go", "build", "-buildvcs=false", "-o", out, pkg); err != nil {
			return err
		}
	}
	if err := command(ctx, checkout, nil, programs.release, "images", "--push", prefix, "--tag", "test", "--platforms", "linux/"+runtime.GOARCH); err != nil {
		return err
	}
	mains, err := filepath.Glob(filepath.Join(checkout, "functions", "*", "cmd", "main.go"))
	if err != nil {
		return err
	}
	shipped = map[string]*image{}
	for _, main := range mains {
		function := filepath.Base(filepath.Dir(filepath.Dir(main)))
		img, err := pull(ctx, prefix+"/"+function+":test", filepath.Join(dir, "root", function))
		if err != nil {
			return fmt.Errorf("pull the image of %s: %w", function, err)
		}
		shipped[function] = img
	}
	return nil
}

func command(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
	}
	return nil
}
