package balancer_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack/internal/balancer"
	"github.com/sluicegate/sluice/tests/check"
)

// endpoint returns its name and the received text at the end of a connection.
func endpoint(t *testing.T, name string) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				received, err := io.ReadAll(c)
				if err == nil {
					_, _ = c.Write([]byte(name + " received " + string(received)))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func refusing(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	check.OK(t, l.Close())
	return l.Addr().String()
}

func listen(t *testing.T, endpoints ...string) *balancer.Balancer {
	t.Helper()
	b, err := balancer.Listen(t.Context(), "127.0.0.1:0", endpoints, slog.New(slog.DiscardHandler))
	check.OK(t, err)
	check.Closes(t, b)
	return b
}

func dial(ctx context.Context, t *testing.T, b *balancer.Balancer) *net.TCPConn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", b.Addr().String())
	check.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	check.OK(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T", c)
	}
	return tcp
}

func say(t *testing.T, b *balancer.Balancer, text string) string {
	t.Helper()
	c := dial(t.Context(), t, b)
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	check.OK(t, c.CloseWrite())
	response, err := io.ReadAll(c)
	check.OK(t, err)
	return string(response)
}

func TestRoundRobin(t *testing.T) {
	t.Parallel()
	b := listen(t, endpoint(t, "a"), endpoint(t, "b"))
	var got []string
	for range 4 {
		got = append(got, say(t, b, "x"))
	}
	want := []string{"a received x", "b received x", "a received x", "b received x"}
	check.Equal(t, "responses", want, got)
}

func ends(t *testing.T, b *balancer.Balancer) bool {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", b.Addr().String())
	if err != nil {
		return true
	}
	defer c.Close()
	check.OK(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	n, err := c.Read(make([]byte, 1))
	return err != nil && n == 0 && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestRefusingEndpointIsNotSkipped(t *testing.T) {
	t.Parallel()
	b := listen(t, refusing(t), endpoint(t, "b"))
	for range 2 {
		if !ends(t, b) {
			t.Error("got a connection from an endpoint that refuses, want none")
		}
		if got := say(t, b, "x"); got != "b received x" {
			t.Errorf("got %q, want \"b received x\"", got)
		}
	}
}

func TestNoEndpoints(t *testing.T) {
	t.Parallel()
	b := listen(t)
	if !ends(t, b) {
		t.Error("got a connection without endpoints, want none")
	}
}

func TestSet(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	a, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer a.Close()
	b := listen(t, a.Addr().String())
	c := dial(t.Context(), t, b)
	joined, err := a.Accept()
	check.OK(t, err)
	defer joined.Close()
	b.Set([]string{endpoint(t, "b")})
	for range 2 {
		if got := say(t, b, "x"); got != "b received x" {
			t.Errorf("got %q after Set, want \"b received x\"", got)
		}
	}
	if _, err := joined.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("still here"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "still here" {
		t.Errorf("open connection: got %q, %v, want \"still here\"", got, err)
	}
}

func TestCloseCutsOpenConnections(t *testing.T) {
	t.Parallel()
	b := listen(t, endpoint(t, "a"))
	c := dial(t.Context(), t, b)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	check.OK(t, b.Close())
	if _, err := io.ReadAll(c); err != nil {
		t.Logf("client error: %v", err)
	}
	var d net.Dialer
	if _, err := d.DialContext(t.Context(), "tcp", b.Addr().String()); err == nil {
		t.Error("got a connection after Close, want an error")
	}
}
