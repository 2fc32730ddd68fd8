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

// headLimit is in bytes, like the limit of net/http.
const headLimit = 1 << 20

var errPipelined = errors.New("pipelining is not supported: wait for the previous response")

// tap records the header section of a request as received, because net/http changes header
// names to their canonical form.
//
// net/http reads ahead, so the stream does not show where a request begins. A client sends its
// next request only after the previous response. Handlers therefore call next after they have
// read the body and before they respond.
type tap struct {
	net.Conn

	mu   sync.Mutex
	head []byte
	full bool // the body follows
}

func (t *tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.mu.Lock()
	defer t.mu.Unlock()
	if n > 0 && !t.full {
		from := max(0, len(t.head)-3) // the end of the header section may span two reads
		t.head = append(t.head, b[:n]...)
		if i := bytes.Index(t.head[from:], []byte("\r\n\r\n")); i >= 0 {
			t.head, t.full = t.head[:from+i+2], true
		} else if len(t.head) > headLimit {
			t.full = true
		}
	}
	return n, err
}

func (t *tap) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head, t.full = nil, false
}

// headers returns the headers as sent. Names that differ in case are separate.
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

type tapListener struct{ net.Listener }

func (l tapListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tap{Conn: c}, nil
}

type tapKey struct{}

func withTap(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, tapKey{}, c)
}

func tapOf(r *http.Request) (*tap, bool) {
	t, ok := r.Context().Value(tapKey{}).(*tap)
	return t, ok
}
