// Package ports finds and checks TCP ports of the loopback addresses.
package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// Free asks the system for n different ports that nothing listens on. Another
// process can take one before the caller does; that is rare, as the system
// hands ports out at random.
func Free(ctx context.Context, n int) (free []int, err error) {
	var lc net.ListenConfig
	for range n {
		l, listenErr := lc.Listen(ctx, "tcp", "127.0.0.1:0")
		if listenErr != nil {
			return nil, fmt.Errorf("find a free port: %w", listenErr)
		}
		// Held until all are found, so that they differ.
		defer func() { err = errors.Join(err, l.Close()) }()
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("find a free port: got %v", l.Addr())
		}
		free = append(free, address.Port)
	}
	return free, nil
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
