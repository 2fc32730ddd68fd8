// Package firestore runs Google's Firestore emulator, which stores its data in memory.
//
// After each write, the emulator sends listeners the complete result of their query, so the cost
// of a write grows with its collection. The real Firestore sends only the change.
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
	startLimit = 3 * time.Minute // usually one second; longer on a machine that also links programs
	attempts   = 5
	mainClass  = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
)

// Options configure an emulator.
type Options struct {
	IP    string
	Port  int
	Log   io.Writer // receives the output; nil discards it
	Env   []string  // in addition to this process's environment
	Rules string    // security rules; without them, access is unrestricted
}

// Server is a running emulator.
type Server struct {
	*child.Service

	Host string // e.g. "127.0.0.1:8081"
}

// Start starts an emulator and waits until it is ready. It runs until Close or the end of this
// process.
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

func start(ctx context.Context, jar string, o Options) (*Server, error) {
	host := net.JoinHostPort(o.IP, strconv.Itoa(o.Port))
	service, err := child.Run(ctx, "firestore", startLimit, func() (child.Command, child.Check) {
		out := &output{next: o.Log}
		return command(jar, o, out), func(ctx context.Context) error {
			if !out.serving.Load() {
				return errors.New("not serving yet")
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
		// The optimizing compiler does not pay off within minutes.
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

// Answers returns an error if the emulator does not respond.
func (s *Server) Answers(ctx context.Context) error { return answers(ctx, s.Host) }

func answers(ctx context.Context, host string) error {
	return child.Get(ctx, http.DefaultClient, "http://"+host+"/")
}

// output waits for the line with which this emulator reports that it serves. A response on the
// port would not suffice: another process could own it.
type output struct {
	next    io.Writer
	seen    []byte
	serving atomic.Bool
}

// seenLimit is in bytes.
const seenLimit = 16 << 10

// Write is called by one goroutine.
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
