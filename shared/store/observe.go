package store

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// called is told of each call of the store that has ended.
type called func(op, outcome string, took time.Duration, lasting bool)

// watcher sees every call on the connection; it implements [stats.Handler].
type watcher struct{ tell atomic.Pointer[called] }

// Observe has each call of the store told to f, once it has ended: the operation,
// such as "commit", its gRPC status, such as "OK", and how long it took. lasting
// says that the call is a listener, which lasts as long as it is wanted. f must not
// block.
func (s *Store) Observe(f func(op, outcome string, took time.Duration, lasting bool)) {
	told := called(f)
	s.watcher.tell.Store(&told)
}

type opKey struct{}

// TagRPC implements [stats.Handler].
func (w *watcher) TagRPC(ctx context.Context, i *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, opKey{}, i.FullMethodName)
}

// HandleRPC implements [stats.Handler].
func (w *watcher) HandleRPC(ctx context.Context, s stats.RPCStats) {
	end, ok := s.(*stats.End)
	tell := w.tell.Load()
	if !ok || tell == nil {
		return
	}
	method, _ := ctx.Value(opKey{}).(string)
	op := opName(method)
	(*tell)(op, status.Code(end.Error).String(), end.EndTime.Sub(end.BeginTime), op == "listen")
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
