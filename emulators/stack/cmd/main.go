// Command stack runs the local stack.
//
//	stack up      starts the stack and runs until Ctrl-C
//	stack down    stops a stack that another shell started
//
// Its settings are SLUICE_PORT_BASE (first port, default 8080), SLUICE_CHECKERS (1 to 8,
// default 2) and SLUICE_RACE=1 (race detector).
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

// downLimit includes the end of open requests.
const downLimit = 90 * time.Second

func main() {
	// SIGHUP stops the stack when its terminal closes.
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
		message, err := stack.Down(ctx, o.Dir)
		if err != nil {
			return err
		}
		fmt.Println(message)
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

func number(name string, unset int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return unset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q; it must be a whole number of at least 1", name, text)
	}
	return n, nil
}

func up(ctx context.Context, o stack.Options) error {
	began := time.Now()
	s, err := stack.Start(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted before the stack was ready")
	case err != nil:
		return err
	}
	fmt.Printf("The stack is ready after %.1f s.\n\n%s\nTo stop it, press Ctrl-C or run make down in another shell.\n", time.Since(began).Seconds(), s.Info().Table())
	<-ctx.Done()
	fmt.Println("Stopping the stack.")
	if err := s.Close(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	fmt.Println("The stack is stopped.")
	return nil
}
