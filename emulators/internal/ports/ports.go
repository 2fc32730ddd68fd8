// Package ports finds and checks TCP ports of the loopback addresses.
package ports

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// What Free draws from: below the ports that the system gives to outgoing connections
// and to listeners without a wish (from 32768 on Linux), so that none of those takes one
// before the caller does, and below those of the stacks.
const (
	first = 2000
	last  = 7999
	tries = 1000
)

// Free draws n different ports on which nothing listens. Another process that draws at
// the same time can take one before the caller does; that is rare.
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
	return nil, fmt.Errorf("find %d free ports between %d and %d: there are none", n, first, last)
}

// Check gives an error that names the address when something listens there.
func Check(ctx context.Context, host string, port int) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d is in use (%w)", port, err)
	}
	return l.Close()
}
