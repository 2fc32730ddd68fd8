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

// program is a program to build.
type program struct {
	name string // for example "keys"
	dir  string // package, relative to the module: "functions/keys/cmd"
}

func commandLine() program { return program{"sluice", "scripts/sluice"} }

func function(name string) program { return program{name, "functions/" + name + "/cmd"} }

// built is the image of a function for one platform.
type built struct {
	platform  v1.Platform
	image     v1.Image
	info      *buildinfo.BuildInfo // of the program
	materials []byte               // SPDX document in JSON
}

// defaultPlatforms returns the platforms of most clusters for images to push, and this
// machine's for files.
func defaultPlatforms(pushed bool) []string {
	if pushed {
		return []string{"linux/amd64", "linux/arm64"}
	}
	return []string{"linux/" + runtime.GOARCH}
}

// buildImages builds the images of a function, one for each platform.
func buildImages(ctx context.Context, f program, platforms []string, src source) ([]built, error) {
	var images []built
	for _, s := range platforms {
		platform, err := v1.ParsePlatform(s)
		if err != nil {
			return nil, err
		}
		if platform.OS != "linux" || platform.Architecture == "" || platform.Variant != "" {
			return nil, fmt.Errorf("platform %q: must be linux/ARCHITECTURE", s)
		}
		b, err := buildImage(ctx, f, *platform, src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s, err)
		}
		images = append(images, b)
	}
	return images, nil
}

func buildImage(ctx context.Context, f program, platform v1.Platform, src source) (built, error) {
	content, info, err := compile(ctx, f, "linux", platform.Architecture, src)
	if err != nil {
		return built{}, err
	}
	licenses, err := moduleLicenses(ctx, f)
	if err != nil {
		return built{}, err
	}
	materials, err := billOfMaterials("sluice-"+f.name, []linked{{f, info}}, licenses, src)
	if err != nil {
		return built{}, err
	}
	image, err := assemble(f.name, platform, content, certificates(), src)
	return built{platform: platform, image: image, info: info, materials: materials}, err
}

// compile builds a static program. It returns the program and the build information in it.
func compile(ctx context.Context, p program, system, architecture string, src source) ([]byte, *buildinfo.BuildInfo, error) {
	dir, err := os.MkdirTemp("", "sluice-release-")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, p.name)
	flags := "-s -w -buildid="
	if src.release != "" {
		flags += " -X main.version=" + src.release + " -X main.commit=" + src.revision
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", file, "./"+p.dir) //nolint:gosec // a package of this repository
	cmd.Env = append(cleanEnvironment(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, nil, fmt.Errorf("build: %w", err)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read build information: %w", err)
	}
	if info.Main.Path != module {
		return nil, nil, fmt.Errorf("program belongs to module %q, want %q", info.Main.Path, module)
	}
	content, err := os.ReadFile(file)
	return content, info, err
}

// cleanEnvironment returns the environment without the variables that affect the compiler.
func cleanEnvironment() []string {
	ignored := []string{"GOFLAGS", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFIPS140", "GOWORK", "GODEBUG"}
	env := slices.DeleteFunc(os.Environ(), func(s string) bool {
		key, _, _ := strings.Cut(s, "=")
		return slices.Contains(ignored, key)
	})
	// Removing them does not suffice: "go env -w" stores settings in a file.
	return append(env, "GOFLAGS=-mod=readonly", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
}

// output runs a command and returns its output.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // callers pass constant names
	cmd.Env = cleanEnvironment()
	text, err := cmd.Output()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, e.Stderr)
	}
	return text, err
}
