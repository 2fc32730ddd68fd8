// Command cluster runs a Kubernetes cluster on this machine.
//
//	cluster up      starts the cluster and waits until it is ready
//	cluster down    stops it
//	cluster build   builds the programs that "up" needs
//
// It starts itself as "init" and "node" in the node's namespaces.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/cluster"
	"github.com/sluicegate/sluice/emulators/internal/tool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "init":
		return cluster.Init([]string{os.Args[0], "node", args[1]})
	case len(args) == 2 && args[0] == "node":
		return cluster.RunNode(ctx, cluster.Options{Dir: args[1]})
	case len(args) != 1:
		return errors.New("usage: cluster up | down | build")
	}
	root, err := tool.Root(".")
	if err != nil {
		return err
	}
	o := cluster.Options{Root: root, Dir: filepath.Join(root, ".local", "cluster")}
	switch args[0] {
	case "build":
		_, err := cluster.Build(ctx, root, os.Stdout)
		return err
	case "up":
		return up(ctx, o)
	case "down":
		was, err := cluster.Down(ctx, o)
		if err == nil && was {
			fmt.Println("The cluster is stopped.")
		} else if err == nil {
			fmt.Println("No cluster is running.")
		}
		return err
	default:
		return errors.New("usage: cluster up | down | build")
	}
}

func up(ctx context.Context, o cluster.Options) error {
	began := time.Now()
	info, err := cluster.Up(ctx, o, os.Stdout)
	if err != nil {
		return err
	}
	fmt.Printf("The cluster is ready after %.1f s.\n\n%s\nTo stop it, run make cluster-down.\n", time.Since(began).Seconds(), info.Table())
	return nil
}
