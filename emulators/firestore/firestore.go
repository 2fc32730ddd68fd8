// Package firestore runs Google's own Firestore emulator, the jar of the Google
// Cloud CLI's component cloud-firestore-emulator.
//
// What is stored lives in the emulator's memory and ends with it. Known: on
// every write the emulator sends a listened query's whole result again, so a
// write costs as much as its collection is large; production Firestore sends
// only the change.
package firestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/internal/ports"
)

const (
	startLimit = 3 * time.Minute // a machine that links programs beside it; usually one second
	attempts   = 5               // to get a free port that stays free until the emulator has it
	mainClass  = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
)

// Options are all optional.
type Options struct {
	IP    string    // that it listens on; "" is 127.0.0.1
	Port  int       // 0 takes a free one
	Log   io.Writer // takes the emulator's output; nil drops it
	Env   []string  // added to this process's environment
	Rules string    // file of security rules; without one, strangers may do everything
}

// Server is a running emulator.
type Server struct {
	*child.Service // its process

	Host string // e.g. "127.0.0.1:8081", a value for FIRESTORE_EMULATOR_HOST
}

// Start starts an emulator and waits until it answers. It ends with Close, and
// with this process at the latest.
func Start(ctx context.Context, o Options) (*Server, error) {
	o.IP = cmp.Or(o.IP, "127.0.0.1")
	jar, err := Jar(ctx)
	if err != nil {
		return nil, err
	}
	if err := CheckJava(ctx); err != nil {
		return nil, err
	}
	if o.Port != 0 {
		return start(ctx, jar, o)
	}
	for range attempts {
		var free []int
		if free, err = ports.Free(ctx, 1); err != nil {
			return nil, err
		}
		o.Port = free[0]
		var s *Server
		if s, err = start(ctx, jar, o); err == nil || ctx.Err() != nil {
			return s, err
		}
	}
	return nil, err
}

// start runs the emulator on a port that should be free.
func start(ctx context.Context, jar string, o Options) (*Server, error) {
	host := net.JoinHostPort(o.IP, strconv.Itoa(o.Port))
	service, err := child.Run(ctx, "firestore", startLimit, func() (child.Command, child.Check) {
		out := &output{next: o.Log}
		return command(jar, o, out), func(ctx context.Context) error {
			if !out.serving.Load() {
				return errors.New("it does not serve yet")
			}
			return answers(ctx, host)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("start the Firestore emulator on %s: %w", host, err)
	}
	return &Server{Service: service, Host: host}, nil
}

func command(jar string, o Options, out *output) child.Command {
	args := []string{
		// The emulator runs for minutes: the optimizing compiler costs more than it saves.
		"-Duser.language=en", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jar, mainClass,
		"--host", o.IP, "--port", strconv.Itoa(o.Port),
	}
	if o.Rules != "" {
		args = append(args, "--rules", o.Rules)
	}
	return child.Command{
		Path: "java",
		Args: args,
		Env:  append(os.Environ(), o.Env...),
		Log:  out,
	}
}

// Answers asks the emulator for a sign of life.
func (s *Server) Answers(ctx context.Context) error { return answers(ctx, s.Host) }

func answers(ctx context.Context, host string) error {
	return child.Get(ctx, http.DefaultClient, "http://"+host+"/")
}

// output passes the emulator's output on and watches it for the line that says
// that the port is this emulator's: an answer on the port alone could come from
// another one.
type output struct {
	next    io.Writer // may be nil
	seen    []byte    // until serving
	serving atomic.Bool
}

// seenLimit bounds what is kept of the output until the emulator serves, in bytes.
const seenLimit = 16 << 10

// Write is called by one goroutine, the one that reads the child's output.
func (o *output) Write(b []byte) (int, error) {
	if !o.serving.Load() && len(o.seen) < seenLimit {
		o.seen = append(o.seen, b...)
		o.serving.Store(bytes.Contains(o.seen, []byte("Dev App Server is now running")))
	}
	if o.next != nil {
		return o.next.Write(b)
	}
	return len(b), nil
}
