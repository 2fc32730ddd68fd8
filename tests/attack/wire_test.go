package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const patience = 30 * time.Second

func atIngress() string { return strings.TrimPrefix(world.Info().IngressURL, "http://") }
func atChecker() string { return strings.TrimPrefix(world.Info().Checkers[0], "https://") }
func atFunction(name string) string {
	return strings.TrimPrefix(world.Info().Functions[name], "http://")
}

// dial opens a connection, with TLS to a checker, that is closed with the test.
func dial(t testing.TB, address string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	check.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	check.OK(t, conn.SetDeadline(time.Now().Add(patience)))
	if address != atChecker() {
		return conn
	}
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	check.OK(t, secure.HandshakeContext(ctx))
	return secure
}

// raw sends text and returns all data until the other side closes or resets the connection.
func raw(t testing.TB, address, sent string) string {
	t.Helper()
	conn := dial(t, address)
	if _, err := io.WriteString(conn, sent); err != nil && !closed(err) {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil && !closed(err) {
		t.Fatalf("%v after %q", err, got)
	}
	return string(got)
}

// closed reports whether err only means that the other side has closed the connection.
func closed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !errors.Is(err, os.ErrDeadlineExceeded)
}

// answers parses the responses in a connection's data.
func answers(t testing.TB, got string) []stacktest.Answer {
	t.Helper()
	var all []stacktest.Answer
	r := bufio.NewReader(strings.NewReader(got))
	for {
		if _, err := r.Peek(1); err != nil {
			return all
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("response is not HTTP: %v in %q", err, got)
		}
		var body bytes.Buffer
		_, _ = io.Copy(&body, res.Body)
		_ = res.Body.Close()
		all = append(all, stacktest.Answer{Status: res.StatusCode, Header: res.Header, Body: body.String()})
	}
}

// reached reports whether a response is the app's.
func reached(a stacktest.Answer) bool { return strings.Contains(a.Body, `"body_bytes"`) }

func do(t testing.TB, req *http.Request) (stacktest.Answer, error) {
	t.Helper()
	client := &http.Client{
		Timeout:       patience,
		Transport:     stacktest.Described(&http.Transport{DisableKeepAlives: true}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return stacktest.Do(client, req)
}

func encode(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	check.OK(t, err)
	return string(b)
}
