// The local stack, as a program:
//
//	stack up      starts it and runs until Ctrl-C
//	stack down    stops one that another shell started
//
// $SLUICE_PORT_BASE is the first of its ports (default 8080), $SLUICE_CHECKERS how many
// checkers it has (default 2, at most 8); SLUICE_RACE=1 builds the functions with the
// race detector.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/tool"
	"github.com/sluicegate/sluice/emulators/stack"
)

// downLimit is for a stack to end, open requests included.
const downLimit = 90 * time.Second

func main() {
	// A terminal that goes away must end the stack as well.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "stack: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: stack up | down")
	}
	o, err := options()
	if err != nil {
		return err
	}
	switch args[0] {
	case "up":
		return up(ctx, o)
	case "down":
		ctx, cancel := context.WithTimeout(ctx, downLimit)
		defer cancel()
		said, err := stack.Down(ctx, o.Dir)
		if err != nil {
			return err
		}
		fmt.Println(said)
		return nil
	default:
		return errors.New("usage: stack up | down")
	}
}

func options() (stack.Options, error) {
	o := stack.Options{Log: os.Stdout, Seed: true, Race: os.Getenv("SLUICE_RACE") == "1"}
	var err error
	if o.PortBase, err = number("SLUICE_PORT_BASE", stack.DefaultPortBase); err != nil {
		return o, err
	}
	if o.Checkers, err = number("SLUICE_CHECKERS", stack.DefaultCheckers); err != nil {
		return o, err
	}
	if o.Root, err = tool.Root("."); err != nil {
		return o, err
	}
	o.Dir = stack.DefaultDir(o.Root, o.PortBase)
	return o, nil
}

// number reads a setting.
func number(name string, unset int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q, which is no number from 1 on", name, text)
	}
	return n, nil
}

func up(ctx context.Context, o stack.Options) error {
	began := time.Now()
	s, err := stack.Start(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("stopped before all was up")
	case err != nil:
		return err
	}
	fmt.Printf("up after %.1f s\n\n%s\nCtrl-C, or make down in another shell, stops it.\n", time.Since(began).Seconds(), s.Info().Table())
	<-ctx.Done()
	fmt.Println("stopping")
	if err := s.Close(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	fmt.Println("stopped")
	return nil
}
