package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"
)

// options holds the arguments of "release images".
type options struct {
	out       string   // folder for tar files; "" pushes
	push      string   // registry and prefix, for example "ghcr.io/example/sluice"
	tag       string   // tag of pushed images; "" is the version
	platforms []string // for example "linux/amd64"
	only      []string // functions; empty means all
}

// images builds the images of functions, and writes or pushes them.
func images(ctx context.Context, args []string) error {
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
	return forEach(ctx, functions, func(ctx context.Context, f program) error {
		built, err := buildImages(ctx, f, o.platforms, src)
		if err != nil {
			return err
		}
		if o.push != "" {
			return push(ctx, o.push+"/"+f.name, firstOf(o.tag, src.tag()), built, src)
		}
		return write(o.out, f.name, built[0])
	})
}

// forEach calls do for each program, for half as many at a time as there are processors:
// a linker uses more than one.
func forEach(ctx context.Context, programs []program, do func(context.Context, program) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, runtime.NumCPU()/2))
	for _, p := range programs {
		group.Go(func() error {
			if err := do(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func parse(args []string) (options, error) {
	var o options
	var platforms, only string
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	flags.StringVar(&o.push, "push", "", "push to `REGISTRY/PREFIX` instead of writing files")
	flags.StringVar(&o.tag, "tag", "", "tag of pushed images (default: the version)")
	flags.StringVar(&platforms, "platforms", "", "comma-separated platforms (default: linux/amd64,linux/arm64 with --push, else this machine's)")
	flags.StringVar(&only, "only", "", "comma-separated functions (default: all)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if (o.push == "") != (flags.NArg() == 1) || flags.NArg() > 1 {
		return o, errors.New(usage)
	}
	o.out, o.only = flags.Arg(0), split(only)
	if o.platforms = split(platforms); len(o.platforms) == 0 {
		o.platforms = defaultPlatforms(o.push != "")
	}
	if o.push == "" && len(o.platforms) != 1 {
		return o, errors.New("a tar file holds one platform; name one with --platforms")
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

// selectFunctions returns the functions in this checkout, or those named in only.
func selectFunctions(only []string) ([]program, error) {
	mains, err := filepath.Glob("functions/*/cmd/main.go")
	if err != nil {
		return nil, err
	}
	if len(mains) == 0 {
		return nil, errors.New("found no functions; run this command in the root of the repository")
	}
	var found []program
	for _, file := range mains {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		if len(only) == 0 || slices.Contains(only, name) {
			found = append(found, function(name))
		}
	}
	for _, name := range only {
		if !slices.ContainsFunc(found, func(p program) bool { return p.name == name }) {
			return nil, fmt.Errorf("unknown function %q", name)
		}
	}
	return found, nil
}

// write writes an image and its bill of materials to files in the folder out.
func write(out, function string, b built) error {
	if err := os.MkdirAll(out, 0o750); err != nil {
		return fmt.Errorf("create folder for images: %w", err)
	}
	tag, err := name.NewTag("sluice/" + function + ":latest")
	if err != nil {
		return err
	}
	file := filepath.Join(out, function+".tar")
	if err := tarball.WriteToFile(file, tag, b.image); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, function+".spdx.json"), b.materials, 0o644); err != nil { //nolint:gosec // not a secret
		return err
	}
	digest, err := b.image.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%-10s %s  %s\n", function, digest, file)
	return nil
}
