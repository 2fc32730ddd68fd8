// Command release builds what Sluice ships: images of the functions, the command line,
// the chart, and bills of materials. It needs neither a container engine nor Helm.
//
//	release images OUT                  OUT/FUNCTION.tar, for "docker load", and OUT/FUNCTION.spdx.json
//	release images --push REG/PREFIX    REG/PREFIX/FUNCTION:TAG, an index of all platforms
//	release all VERSION OUT             a complete release, in the new folder OUT
//
// # Reproducible builds
//
// The same sources produce the same bytes, so a digest can be verified by building
// again. Programs contain no paths, IDs or times of the machine. Settings of the
// environment that affect the compiler are ignored. Times are those of the commit, or
// SOURCE_DATE_EPOCH.
//
// The CA certificates come from golang.org/x/crypto/x509roots (Mozilla's list), which
// go.sum pins. Roots that Mozilla trusts only under conditions are omitted, because a
// PEM file cannot express conditions.
//
// # Images
//
// An image contains one static program and the CA certificates. It runs as a non-root
// user. The bill of materials of a pushed image is attached to it as an artifact of type
// application/spdx+json, which cosign and oras can find. Credentials are those of
// "docker login". Registries on a loopback address are accessed without TLS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `usage:
  release images [flags] OUT
  release images [flags] --push REGISTRY/PREFIX
  release all VERSION OUT`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) > 0 && args[0] == "images":
		return images(ctx, args[1:])
	case len(args) == 3 && args[0] == "all":
		return all(ctx, args[1], args[2])
	}
	return errors.New(usage)
}
