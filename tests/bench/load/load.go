package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Load is a closed loop: each connection waits for the previous response.
type Load struct {
	Address     string      // HTTP/1.1 server
	TLS         *tls.Config // nil sends plain text
	Connections int
	Head        string   // request line and headers without the key
	Keys        []string // random X-API-Key; may be empty
	Once        bool     // sends each key once, and then ends
	For         time.Duration
	Now         func() time.Time
}

// Result is the result of a load.
type Result struct {
	Requests int
	Took     time.Duration
	Statuses map[int]int
	P50, P99 time.Duration
}

// Rate returns requests per second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Took.Seconds() }

// Run sends requests until the time is over.
func (l Load) Run(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, l.For+10*time.Second)
	defer cancel()
	began := l.Now()
	all := make([]connection, l.Connections)
	var wg sync.WaitGroup
	var sent atomic.Int64
	for i := range all {
		wg.Go(func() { all[i].err = all[i].run(ctx, l, &sent, began.Add(l.For)) })
	}
	wg.Wait()
	r := Result{Took: l.Now().Sub(began), Statuses: map[int]int{}}
	var times []time.Duration
	var err error
	for _, c := range all {
		err = errors.Join(err, c.err)
		times = append(times, c.times...)
		for status, n := range c.statuses {
			r.Statuses[status] += n
		}
	}
	if err != nil || len(times) == 0 {
		return r, fmt.Errorf("load %s: %d responses: %w", l.Address, len(times), err)
	}
	slices.Sort(times)
	r.Requests, r.P50, r.P99 = len(times), times[len(times)/2], times[len(times)*99/100]
	return r, nil
}

type connection struct {
	times    []time.Duration
	statuses map[int]int
	err      error
}

func (c *connection) run(ctx context.Context, l Load, sent *atomic.Int64, end time.Time) error {
	c.statuses = map[int]int{}
	server := &link{load: l}
	defer server.hangUp()
	request := []byte(l.Head)
	for last := l.Now(); last.Before(end); {
		request = request[:len(l.Head)]
		if len(l.Keys) > 0 {
			at := rand.N(len(l.Keys))
			if l.Once {
				if at = int(sent.Add(1) - 1); at >= len(l.Keys) {
					return nil
				}
			}
			request = append(request, "X-API-Key: "...)
			request = append(request, l.Keys[at]...)
			request = append(request, "\r\n"...)
		}
		status, err := server.send(ctx, append(request, "\r\n"...))
		if err != nil {
			return err
		}
		received := l.Now()
		c.times, last = append(c.times, received.Sub(last)), received
		c.statuses[status]++
	}
	return nil
}

// link is a connection that reconnects.
type link struct {
	load Load
	conn net.Conn
	in   *bufio.Reader
}

func (l *link) send(ctx context.Context, request []byte) (status int, err error) {
	if l.conn == nil {
		if err := l.dial(ctx); err != nil {
			return 0, err
		}
	}
	if _, err := l.conn.Write(request); err != nil {
		return 0, err
	}
	status, last, err := readResponse(l.in)
	if last {
		l.hangUp()
	}
	return status, err
}

func (l *link) dial(ctx context.Context) (err error) {
	if l.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", l.load.Address); err != nil {
		return err
	}
	if l.load.TLS != nil {
		l.conn = tls.Client(l.conn, l.load.TLS)
	}
	l.in = bufio.NewReaderSize(l.conn, 4096)
	deadline, _ := ctx.Deadline()
	return l.conn.SetDeadline(deadline)
}

func (l *link) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close()
	}
	l.conn = nil
}

// readResponse reads one response with a Content-Length. last reports whether the server closes
// the connection.
func readResponse(in *bufio.Reader) (status int, last bool, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, false, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, false, fmt.Errorf("malformed status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, false, err
	}
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		if len(line) <= 2 {
			break
		}
		if value, ok := header(line, "content-length: "); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, false, err
			}
		}
		if value, ok := header(line, "connection: "); ok {
			last = string(value) == "close"
		}
	}
	_, err = in.Discard(length)
	return status, last, err
}

// header matches the name case-insensitively.
func header(line []byte, name string) (value []byte, ok bool) {
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name):]), true
}
