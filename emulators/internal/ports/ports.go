// Package ports finds and checks free loopback ports.
package ports

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// The range is below the ports of stacks and those that the system assigns (from 32768 on
// Linux).
const (
	first = 2000
	last  = 7999
	tries = 1000
)

// Free returns n different free ports. A concurrent call in another process can return the
// same; that is rare.
func Free(ctx context.Context, n int) ([]int, error) {
	var free []int
	for range tries {
		if len(free) == n {
			return free, nil
		}
		port := first + rand.IntN(last-first+1) //nolint:gosec // no secret
		if !slices.Contains(free, port) && Check(ctx, "127.0.0.1", port) == nil {
			free = append(free, port)
		}
	}
	return nil, fmt.Errorf("find %d free ports between %d and %d: not enough", n, first, last)
}

// Check returns an error that names a port in use.
func Check(ctx context.Context, host string, port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d is in use (%w)", port, err)
	}
	return l.Close()
}
