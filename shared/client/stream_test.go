package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestStreamRetriesOnlyBeforeItsStart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serve func(n int64, w http.ResponseWriter)
		calls int64
		out   string
		fails bool
	}{
		"rejected once": {func(n int64, w http.ResponseWriter) {
			if n == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, "whole")
		}, 2, "whole", false},
		"rejected": {func(_ int64, w http.ResponseWriter) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"code":"forbidden","message":"No."}`)
		}, 1, "", true},
		"broken": {func(_ int64, w http.ResponseWriter) {
			_, _ = io.WriteString(w, "part")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 1, "part", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { tt.serve(calls.Add(1), w) }))
			t.Cleanup(server.Close)
			var out bytes.Buffer
			err := New(server.URL).ExportUsage(t.Context(), "shop", "prod", "", "", "", &out)
			if out.String() != tt.out || (err != nil) != tt.fails || calls.Load() != tt.calls {
				t.Errorf("got %q after %d calls, error %v", out.String(), calls.Load(), err)
			}
		})
	}
}

// slowBody sends parts with a pause before each, then nothing.
type slowBody struct {
	ctx   context.Context //nolint:containedctx // ends like the request
	parts int
	pause time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.parts == 0 {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	b.parts--
	time.Sleep(b.pause) // in a bubble
	return copy(p, "x"), nil
}

func (*slowBody) Close() error { return nil }

// slowWriter takes a time for each part.
type slowWriter struct {
	got   bytes.Buffer
	pause time.Duration
}

func (w *slowWriter) Write(b []byte) (int, error) {
	time.Sleep(w.pause) // in a bubble
	return w.got.Write(b)
}

// TestStreamTimeout verifies that the timeout is for each part of a response, and excludes the time
// of the output.
func TestStreamTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const parts, timeout = 20, 10 * time.Second
		slow := &script{answers: []func(*http.Request) (*http.Response, error){func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: &slowBody{r.Context(), parts, timeout / 2}}, nil
		}}}
		begun := time.Now()
		out := slowWriter{pause: 2 * timeout}
		err := New("http://example.com", WithTransport(slow), WithTimeout(timeout)).ExportUsage(t.Context(), "shop", "prod", "", "", "", &out)
		if took := time.Since(begun); out.got.Len() != parts || !errors.Is(err, context.DeadlineExceeded) || took != (parts/2+2*parts+1)*timeout {
			t.Errorf("got %d parts after %s, error %v, want every part, then a timeout", out.got.Len(), took, err)
		}
	})
}
