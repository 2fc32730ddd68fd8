package fire

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/shared/span"
)

const emulatorVariable = "FIRESTORE_EMULATOR_HOST"

// maxMessage is the maximum size of a message, in bytes. Lists arrive one document (at most 1 MiB)
// per message.
const maxMessage = 64 << 20

// connectTimeout applies to one attempt to connect.
const connectTimeout = 10 * time.Second

// maxReconnectPause is the longest pause before a reconnect; gRPC's default is two minutes.
const maxReconnectPause = 3 * time.Second

// dialOptions detect a dead connection and reconnect quickly. With keepalive, unacknowledged data
// closes the connection after Timeout; TCP waits about 15 minutes.
func dialOptions(w *watcher) []grpc.DialOption {
	reconnect := backoff.DefaultConfig
	reconnect.MaxDelay = maxReconnectPause
	return []grpc.DialOption{
		grpc.WithStatsHandler(w),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}
}

func clientOptions(dial []grpc.DialOption) (opts []option.ClientOption, err error) {
	host := os.Getenv(emulatorVariable)
	if host == "" {
		for _, o := range dial {
			opts = append(opts, option.WithGRPCDialOption(o))
		}
		return opts, nil
	}
	host = strings.TrimPrefix(host, "http://")
	conn, err := grpc.NewClient("passthrough:///"+host, append(dial,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(emulatorOwner{}))...)
	if err != nil {
		return nil, fmt.Errorf("connect to the emulator at %s: %w", host, err)
	}
	return []option.ClientOption{option.WithGRPCConn(conn)}, nil
}

// emulatorOwner bypasses the emulator's security rules.
type emulatorOwner struct{}

func (emulatorOwner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (emulatorOwner) RequireTransportSecurity() bool { return false }

type observer func(op, outcome string, took time.Duration, lasting bool)

// watcher adds a span for each call within a span.
type watcher struct{ observer atomic.Pointer[observer] }

// Observe calls f after each call of the store, with the operation, such as "commit", the gRPC
// status, such as "OK", and the duration. lasting is true for listeners. f must not block.
func (db *DB) Observe(f func(op, outcome string, took time.Duration, lasting bool)) {
	o := observer(f)
	db.watcher.observer.Store(&o)
}

// Report notifies the observer of an event that is not a call.
func (db *DB) Report(op, outcome string) { db.watcher.notify(op, outcome, 0, true) }

type callKey struct{}

type call struct {
	op   string
	span span.Span
}

const listening = "listen"

func (w *watcher) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	c := call{op: opName(i.FullMethodName)}
	if c.op != listening {
		_, c.span = span.Start(ctx, span.Client, "store "+c.op, span.Field{Key: span.Operation, Value: c.op})
	}
	return context.WithValue(ctx, callKey{}, c)
}

func (w *watcher) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	if !ok {
		return
	}
	c, _ := ctx.Value(callKey{}).(call)
	outcome := status.Code(end.Error).String()
	c.span.Set(span.Field{Key: span.Outcome, Value: outcome})
	c.span.End(end.Error)
	w.notify(c.op, outcome, end.EndTime.Sub(end.BeginTime), c.op == listening)
}

func (w *watcher) notify(op, outcome string, took time.Duration, lasting bool) {
	if o := w.observer.Load(); o != nil {
		(*o)(op, outcome, took, lasting)
	}
}

func (*watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*watcher) HandleConn(context.Context, stats.ConnStats) {}

func opName(method string) string {
	var b strings.Builder
	for i, c := range []byte(method[strings.LastIndexByte(method, '/')+1:]) {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}
