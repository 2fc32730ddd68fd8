package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// built is a function's image for one platform.
type built struct {
	platform  v1.Platform
	image     v1.Image
	materials []byte // SPDX document, JSON
}

// defaultPlatforms are those of most clusters; files are for this machine.
func defaultPlatforms(pushed bool) []string {
	if pushed {
		return []string{"linux/amd64", "linux/arm64"}
	}
	return []string{"linux/" + runtime.GOARCH}
}

// buildAll makes the images of a function.
func buildAll(ctx context.Context, function string, platforms []string, src source) ([]built, error) {
	var all []built
	for _, s := range platforms {
		platform, err := v1.ParsePlatform(s)
		if err != nil {
			return nil, err
		}
		if platform.OS != "linux" || platform.Architecture == "" || platform.Variant != "" {
			return nil, fmt.Errorf("platform %q: only linux/ARCHITECTURE", s)
		}
		b, err := buildOne(ctx, function, *platform, src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		all = append(all, b)
	}
	return all, nil
}

func buildOne(ctx context.Context, function string, platform v1.Platform, src source) (built, error) {
	dir, err := os.MkdirTemp("", "sluice-image-")
	if err != nil {
		return built{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, function)
	if err := compile(ctx, function, platform.Architecture, file); err != nil {
		return built{}, err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return built{}, fmt.Errorf("read what was linked: %w", err)
	}
	if info.Main.Path != module {
		return built{}, fmt.Errorf("the program is of module %q", info.Main.Path)
	}
	licences, err := moduleLicences(ctx, function)
	if err != nil {
		return built{}, err
	}
	materials, err := billOfMaterials(function, info, licences, src)
	if err != nil {
		return built{}, err
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return built{}, err
	}
	image, err := assemble(function, platform, program, certificates(), src)
	return built{platform: platform, image: image, materials: materials}, err
}

// compile makes a function's static program. GOFLAGS and levels of processors that
// this machine's environment asks for would change what comes out.
func compile(ctx context.Context, function, architecture, file string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", file, "./functions/"+function+"/cmd") //nolint:gosec // the name of a folder here
	cmd.Env = append(cleanEnvironment(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	return nil
}

// cleanEnvironment is this process's without what steers the compiler.
func cleanEnvironment() []string {
	steers := []string{"GOFLAGS", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFIPS140", "GOWORK", "GODEBUG"}
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		key, _, _ := strings.Cut(s, "=")
		return slices.Contains(steers, key)
	})
	// Set, not only left out: "go env -w" keeps settings in a file of its own.
	return append(env, "GOFLAGS=-mod=readonly", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
}

// output runs a program and gives what it printed.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // called with fixed names here
	cmd.Env = cleanEnvironment()
	text, err := cmd.Output()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, e.Stderr)
	}
	return text, err
}
