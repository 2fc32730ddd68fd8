package store

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

// emulatorVariable is what the client library calls it.
const emulatorVariable = "FIRESTORE_EMULATOR_HOST"

// maxMessage bounds one message from the store, in bytes: a document has at
// most 1 MiB, a list's answer comes document by document.
const maxMessage = 64 << 20

// maxReconnectPause is the longest that a connection waits before it tries again to
// reach a store that is away. gRPC's own is two minutes, in which the store could
// have been back for long.
const maxReconnectPause = 3 * time.Second

// dialOptions make a connection that dies soon after the network under it has, and
// comes back soon after it: with keepalive set, unacknowledged data ends the
// connection after Timeout, where TCP alone would wait for a quarter of an hour.
func dialOptions(w *watcher) []grpc.DialOption {
	reconnect := backoff.DefaultConfig
	reconnect.MaxDelay = maxReconnectPause
	return []grpc.DialOption{
		grpc.WithStatsHandler(w),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: callTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}
}

// clientOptions connect to Firestore, or to the emulator when the environment
// names one. w sees the calls.
func clientOptions(w *watcher) ([]option.ClientOption, error) {
	host := os.Getenv(emulatorVariable)
	if host == "" {
		var opts []option.ClientOption
		for _, o := range dialOptions(w) {
			opts = append(opts, option.WithGRPCDialOption(o))
		}
		return opts, nil
	}
	host = strings.TrimPrefix(host, "http://")
	conn, err := grpc.NewClient("passthrough:///"+host, append(dialOptions(w),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(emulatorOwner{}))...)
	if err != nil {
		return nil, fmt.Errorf("connect to the emulator at %s: %w", host, err)
	}
	return []option.ClientOption{option.WithGRPCConn(conn)}, nil
}

// emulatorOwner is how the emulator knows the owner of a project, whom its
// security rules let do everything.
type emulatorOwner struct{}

func (emulatorOwner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (emulatorOwner) RequireTransportSecurity() bool { return false }

// observer is notified of each call of the store that has ended.
type observer func(op, outcome string, took time.Duration, lasting bool)

// watcher sees every call on the connection; it implements [stats.Handler]. A call below a
// span is one of its own, which says no more than the operation and how that ended: the
// library's instrumentation would say more, and also of what nobody has asked for.
type watcher struct{ observer atomic.Pointer[observer] }

// Observe notifies f of each call of the store, once it has ended: the operation,
// such as "commit", its gRPC status, such as "OK", and how long it took. lasting
// says that the call is a listener, which lasts as long as it is wanted. f must not
// block.
func (s *Store) Observe(f func(op, outcome string, took time.Duration, lasting bool)) {
	o := observer(f)
	s.watcher.observer.Store(&o)
}

type callKey struct{}

// call is a call that is under way.
type call struct {
	op   string
	span span.Span
}

// listening is the operation that lasts as long as it is wanted.
const listening = "listen"

// TagRPC implements [stats.Handler].
func (w *watcher) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	c := call{op: opName(i.FullMethodName)}
	if c.op != listening {
		_, c.span = span.Start(ctx, span.Client, "store "+c.op, span.Field{Key: span.Operation, Value: c.op})
	}
	return context.WithValue(ctx, callKey{}, c)
}

// HandleRPC implements [stats.Handler].
func (w *watcher) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	if !ok {
		return
	}
	c, _ := ctx.Value(callKey{}).(call)
	outcome := status.Code(end.Error).String()
	c.span.Set(span.Field{Key: span.Outcome, Value: outcome})
	c.span.End(end.Error)
	if notify := w.observer.Load(); notify != nil {
		(*notify)(c.op, outcome, end.EndTime.Sub(end.BeginTime), c.op == listening)
	}
}

// TagConn implements [stats.Handler].
func (*watcher) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements [stats.Handler].
func (*watcher) HandleConn(context.Context, stats.ConnStats) {}

// opName gives "run_query" of "/google.firestore.v1.Firestore/RunQuery".
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
