package workloads

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
)

// headLimit bounds what is recorded of a request's head, in bytes; net/http's
// own limit is the same.
const headLimit = 1 << 20

var errPipelined = errors.New("requests must wait for the answer to the one before: pipelining is not supported")

// tap is a connection that records the head of the current request as it came
// over the wire. net/http changes header names to their canonical form, which
// hides what this backend is there to show.
//
// net/http reads ahead, so where a request begins can't be seen in the stream.
// But a client sends its next request only after the answer to the last one, so
// once a body was read to its end, and before anything is answered, whatever
// comes next is the next request: that is when a handler calls next.
type tap struct {
	net.Conn

	mu   sync.Mutex
	head []byte
	full bool // head is whole, what follows is the body
}

// Read passes bytes on and keeps those of the head.
func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > 0 && !t.full {
		from := max(0, len(t.head)-3) // the end of the head may lie across two reads
		t.head = append(t.head, b[:n]...)
		if i := bytes.Index(t.head[from:], []byte("\r\n\r\n")); i >= 0 {
			t.head, t.full = t.head[:from+i+2], true
		} else if len(t.head) > headLimit {
			t.full = true
		}
	}
	return n, err
}

// next forgets the current request.
func (t *tap) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head, t.full = nil, false
}

// headers gives the current request's header lines with their names and values
// as sent. Equal names are gathered in order; names that differ in case stay apart.
func (t *tap) headers(r *http.Request) (map[string][]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line, rest, _ := strings.Cut(string(t.head), "\r\n")
	if !strings.HasPrefix(line, r.Method+" "+r.RequestURI+" ") {
		return nil, errPipelined
	}
	headers := map[string][]string{}
	for l := range strings.SplitSeq(strings.TrimSuffix(rest, "\r\n"), "\r\n") {
		if name, value, ok := strings.Cut(l, ":"); ok {
			headers[name] = append(headers[name], strings.Trim(value, " \t"))
		}
	}
	return headers, nil
}

// tapListener makes every connection a tap.
type tapListener struct{ net.Listener }

// Accept waits for a connection.
func (l tapListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tap{Conn: c}, nil
}

type tapKey struct{}

// withTap lets handlers find the tap of their connection.
func withTap(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, tapKey{}, c)
}

func tapOf(r *http.Request) (*tap, bool) {
	t, ok := r.Context().Value(tapKey{}).(*tap)
	return t, ok
}
