// Command images builds an OCI image of every function, without a container engine,
// and pushes them to a registry when asked.
//
// An image holds one static program, the CA certificates, and nothing else. It runs
// as a user that is not root. Beside it goes a bill of materials: the SPDX document
// of what was linked into the program, as the toolchain recorded it there.
//
// # The same sources make the same image
//
// Programs are built without paths, ids and times of the machine, for a fixed level
// of the processor, with settings of the environment left out. The certificates come
// from a module that go.sum pins (golang.org/x/crypto/x509roots, Mozilla's list), not
// from the machine; roots that Mozilla trusts only for what they issued before some
// day are left out, since a file cannot say so. Labels come from the commit. So a
// digest can be checked by building again.
//
// # What is written
//
//	images OUT                  OUT/NAME.tar ("docker load" reads it) and OUT/NAME.spdx.json
//	images --push REG/PREFIX    REG/PREFIX/NAME:TAG, an index of all platforms
//
// A pushed image has its bill of materials attached the way registries and tools such
// as cosign and oras know it: an artifact of type application/spdx+json whose subject
// is the image. Credentials are those of "docker login"; a registry on this machine's
// loopback address is spoken to without TLS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"
)

// options are the command line.
type options struct {
	out       string   // folder for tar files; "" pushes
	push      string   // registry and prefix, e.g. "ghcr.io/example/sluice"
	tag       string   // of pushed images; "" is the version
	platforms []string // "linux/amd64"
	only      []string // functions; empty is every one
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "images: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	functions, err := selectFunctions(o.only)
	if err != nil {
		return err
	}
	src, err := readSource(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, runtime.NumCPU()/2)) // a linker uses more than one processor
	for _, function := range functions {
		group.Go(func() error {
			if err := o.deliver(ctx, function, src); err != nil {
				return fmt.Errorf("image of %s: %w", function, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// deliver builds a function's images and puts them where they were asked for.
func (o options) deliver(ctx context.Context, function string, src source) error {
	built, err := buildAll(ctx, function, o.platforms, src)
	if err != nil {
		return err
	}
	if o.push != "" {
		return push(ctx, o.push+"/"+function, firstOf(o.tag, src.tag()), built, src)
	}
	return write(o.out, function, built[0])
}

func parse(args []string) (options, error) {
	var o options
	var platforms, only string
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.StringVar(&o.push, "push", "", "push to `REGISTRY/PREFIX` instead of writing files")
	flags.StringVar(&o.tag, "tag", "", "tag of pushed images (default: the version)")
	flags.StringVar(&platforms, "platforms", "", "comma-separated (default: linux/amd64,linux/arm64 with --push, else this machine's)")
	flags.StringVar(&only, "only", "", "comma-separated functions (default: all)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if (o.push == "") != (flags.NArg() == 1) || flags.NArg() > 1 {
		return o, errors.New("usage: images [flags] OUT | images [flags] --push REGISTRY/PREFIX")
	}
	o.out, o.only = flags.Arg(0), split(only)
	if o.platforms = split(platforms); len(o.platforms) == 0 {
		o.platforms = defaultPlatforms(o.push != "")
	}
	if o.push == "" && len(o.platforms) != 1 {
		return o, errors.New("a tar file holds one platform")
	}
	return o, nil
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// selectFunctions lists the functions here, or those asked for.
func selectFunctions(only []string) ([]string, error) {
	programs, err := filepath.Glob("functions/*/cmd/main.go")
	if err != nil {
		return nil, err
	}
	if len(programs) == 0 {
		return nil, errors.New("no functions here: run it from the repository's root")
	}
	var found []string
	for _, main := range programs {
		function := filepath.Base(filepath.Dir(filepath.Dir(main)))
		if len(only) == 0 || slices.Contains(only, function) {
			found = append(found, function)
		}
	}
	for _, function := range only {
		if !slices.Contains(found, function) {
			return nil, fmt.Errorf("there is no function %q", function)
		}
	}
	return found, nil
}

// write puts an image and its bill of materials into files.
func write(out, function string, b built) error {
	if err := os.MkdirAll(out, 0o750); err != nil {
		return fmt.Errorf("make a place for the images: %w", err)
	}
	tag, err := name.NewTag("sluice/" + function + ":latest")
	if err != nil {
		return err
	}
	file := filepath.Join(out, function+".tar")
	if err := tarball.WriteToFile(file, tag, b.image); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, function+".spdx.json"), b.materials, 0o644); err != nil { //nolint:gosec // for everyone to read
		return err
	}
	digest, err := b.image.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%-10s %s  %s\n", function, digest, file)
	return nil
}
