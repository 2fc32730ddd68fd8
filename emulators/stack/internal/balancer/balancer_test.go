package balancer_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/emulators/stack/internal/balancer"
)

// endpoint says its name to whoever connects, after the client has said all.
func endpoint(t *testing.T, name string) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				heard, err := io.ReadAll(c)
				if err == nil {
					_, _ = c.Write([]byte(name + " heard " + string(heard)))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// refusing is an address where nothing listens.
func refusing(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

func listen(t *testing.T, endpoints ...string) *balancer.Balancer {
	t.Helper()
	b, err := balancer.Listen(t.Context(), "127.0.0.1:0", endpoints, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func dial(ctx context.Context, t *testing.T, b *balancer.Balancer) *net.TCPConn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T", c)
	}
	return tcp
}

// say sends text, ends its half and reads the answer.
func say(t *testing.T, b *balancer.Balancer, text string) string {
	t.Helper()
	c := dial(t.Context(), t, b)
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestRoundRobin(t *testing.T) {
	t.Parallel()
	b := listen(t, endpoint(t, "a"), endpoint(t, "b"))
	var got []string
	for range 4 {
		got = append(got, say(t, b, "x"))
	}
	want := []string{"a heard x", "b heard x", "a heard x", "b heard x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func TestRefusingEndpointIsPassedOver(t *testing.T) {
	t.Parallel()
	b := listen(t, refusing(t), endpoint(t, "b"))
	for range 4 {
		if got := say(t, b, "x"); got != "b heard x" {
			t.Errorf("answer %q", got)
		}
	}
}

func TestAllRefuse(t *testing.T) {
	t.Parallel()
	b := listen(t, refusing(t), refusing(t))
	c := dial(t.Context(), t, b)
	if n, err := c.Read(make([]byte, 1)); err == nil || n != 0 {
		t.Errorf("read %d bytes, %v; want a closed connection", n, err)
	}
}

func TestCloseCutsOpenConnections(t *testing.T) {
	t.Parallel()
	b := listen(t, endpoint(t, "a"))
	c := dial(t.Context(), t, b)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Logf("the client sees %v", err) // a reset is as good as an end
	}
	var d net.Dialer
	if _, err := d.DialContext(t.Context(), "tcp", b.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}
