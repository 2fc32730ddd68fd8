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

// Load is a closed loop: each connection sends its next request when the last one
// is answered.
type Load struct {
	Address     string      // host:port, of a server that speaks HTTP/1.1
	TLS         *tls.Config // nil: in clear
	Connections int
	Head        string   // of a request up to its key: the request line and headers, each with its line end
	Keys        []string // one at random goes into each request as X-API-Key; none, and no such header
	Once        bool     // each key is sent once, instead of at random; the load ends when all are
	For         time.Duration
	Now         func() time.Time
}

// Result is what a load saw.
type Result struct {
	Requests int
	Took     time.Duration
	Statuses map[int]int
	P50, P99 time.Duration
}

// Rate is in requests a second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Took.Seconds() }

// Run sends until the load's time is over.
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
		return r, fmt.Errorf("load %s: no answers, or %w", l.Address, err)
	}
	slices.Sort(times)
	r.Requests, r.P50, r.P99 = len(times), times[len(times)/2], times[len(times)*99/100]
	return r, nil
}

// connection is one of a load's.
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
		status, err := server.ask(ctx, append(request, "\r\n"...))
		if err != nil {
			return err
		}
		answered := l.Now()
		c.times, last = append(c.times, answered.Sub(last)), answered
		c.statuses[status]++
	}
	return nil
}

// link is a connection to the server, made anew when the server has ended it.
type link struct {
	load Load
	conn net.Conn // nil before it is made
	in   *bufio.Reader
}

func (l *link) ask(ctx context.Context, request []byte) (status int, err error) {
	if l.conn == nil {
		if err := l.dial(ctx); err != nil {
			return 0, err
		}
	}
	if _, err := l.conn.Write(request); err != nil {
		return 0, err
	}
	status, last, err := answer(l.in)
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

// answer reads one answer of a known length. It gives its status, and whether it is the
// connection's last.
func answer(in *bufio.Reader) (status int, last bool, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, false, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return 0, false, fmt.Errorf("an answer begins with %q", line)
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

// header gives the value of a line that begins with a name, in any case.
func header(line []byte, name string) (value []byte, ok bool) {
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name):]), true
}
