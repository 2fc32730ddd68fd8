package httpapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
)

// streamBuffer is the size of the parts of a streamed response. It also delays the start of the
// response, so that an early error is an error response.
const streamBuffer = 64 << 10

// ServeStream is [Serve] for routes that write their response in parts. An error before the first
// part is an error response. A later error breaks the connection, so that the client does not
// accept the parts as the whole response.
func ServeStream[Req any](a *API, route api.Route[Req, string], answer func(context.Context, Scope, Req, io.Writer) error) {
	a.Handle(route.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, in, err := prepare[Req](a, route.Row, w, r)
		if err != nil {
			return err
		}
		out := &stream{to: w, media: route.Media + "; charset=utf-8", status: route.Status, now: a.now}
		parts := bufio.NewWriterSize(out, streamBuffer)
		err = answer(r.Context(), scope, in, parts)
		if err == nil {
			err = parts.Flush()
		}
		if err != nil && out.started {
			a.log.ErrorContext(r.Context(), "response failed after its start", "code", string(problem.From(err).Code), "error", err)
			abort(w)
		}
		return err
	})
}

// abort breaks the connection. It does not only panic, because the functions framework recovers
// panics and would end the response as usual. HTTP/2 has no other way.
func abort(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = connection.Close()
	}
	panic(http.ErrAbortHandler)
}

type stream struct {
	to      http.ResponseWriter
	media   string
	status  int
	started bool
	now     func() time.Time
}

// Write starts the response with the first part. The client must receive each part within
// writeTimeout.
func (s *stream) Write(part []byte) (int, error) {
	if !s.started {
		s.started = true
		s.to.Header().Set("Content-Type", s.media)
		s.to.WriteHeader(s.status)
	}
	Extend(s.to, 0, s.now())
	return s.to.Write(part)
}
