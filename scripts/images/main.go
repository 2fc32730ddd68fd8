// Command images builds an OCI image of every function, without a container engine.
//
// An image holds one static program, the CA certificates, and nothing else. It runs
// as a user that is not root. The same sources make the same image, byte for byte.
// Each is written to OUT/NAME.tar, which "docker load" and every registry tool read.
//
// usage: images OUT
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

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
	if len(args) != 1 {
		return errors.New("usage: images OUT")
	}
	out := args[0]
	if err := os.MkdirAll(out, 0o750); err != nil {
		return fmt.Errorf("make a place for the images: %w", err)
	}
	certificates, err := readCertificates()
	if err != nil {
		return err
	}
	programs, err := filepath.Glob("functions/*/cmd/main.go")
	if err != nil {
		return err
	}
	if len(programs) == 0 {
		return errors.New("no functions here: run it from the repository's root")
	}
	for _, main := range programs {
		function := filepath.Base(filepath.Dir(filepath.Dir(main)))
		if err := write(ctx, out, function, certificates); err != nil {
			return fmt.Errorf("image of %s: %w", function, err)
		}
	}
	return nil
}

// write builds one function and writes its image.
func write(ctx context.Context, out, function string, certificates []byte) error {
	program, err := build(ctx, function)
	if err != nil {
		return err
	}
	img, err := assemble(function, program, certificates)
	if err != nil {
		return err
	}
	tag, err := name.NewTag("sluice/" + function + ":latest")
	if err != nil {
		return err
	}
	file := filepath.Join(out, function+".tar")
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%-10s %s  %s\n", function, digest, file)
	return nil
}

// build compiles a function into a static program.
func build(ctx context.Context, function string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "sluice-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, function)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", file, "./functions/"+function+"/cmd") //nolint:gosec // the name of a folder here
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	return os.ReadFile(file)
}

// readCertificates gives this machine's CA certificates.
func readCertificates() ([]byte, error) {
	for _, file := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if text, err := os.ReadFile(file); err == nil {
			return text, nil
		}
	}
	return nil, errors.New("no CA certificates on this machine: apt-get install ca-certificates")
}
