package ports_test

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/emulators/internal/ports"
	"github.com/sluicegate/sluice/tests/check"
)

func TestFree(t *testing.T) {
	t.Parallel()
	free, err := ports.Free(t.Context(), 20)
	check.OK(t, err)
	slices.Sort(free)
	if len(slices.Compact(free)) != 20 {
		t.Errorf("got ports %v, want 20 different ones", free)
	}
	if free[len(free)-1] >= 8000 {
		t.Errorf("got ports %v, want all below 8000, where stacks and outgoing connections begin", free)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	_, text, err := net.SplitHostPort(l.Addr().String())
	check.OK(t, err)
	port, err := strconv.Atoi(text)
	check.OK(t, err)
	if err := ports.Check(t.Context(), "127.0.0.1", port); err == nil || !strings.Contains(err.Error(), "port "+text+" is in use") {
		t.Errorf("port in use: got %v, want an error that names it", err)
	}
	check.OK(t, l.Close())
	if err := ports.Check(t.Context(), "127.0.0.1", port); err != nil {
		t.Errorf("free port: got %v, want nil", err)
	}
}
