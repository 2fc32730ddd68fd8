package reqctx

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

const (
	resolveEvery   = 5 * time.Second
	resolveTimeout = 2 * time.Second

	// resolvedFor is the time for which an address stays trusted after its name no longer resolves
	// to it. Pods that shut down still forward requests.
	resolvedFor = time.Minute
)

// Proxies are the trusted proxies between clients and a function.
type Proxies struct {
	networks []netip.Prefix
	names    []string // host names
}

// UnmarshalText implements [encoding.TextUnmarshaler]. The text is a comma-separated list of
// networks in CIDR notation, addresses and host names.
func (p *Proxies) UnmarshalText(text []byte) error {
	var all Proxies
	for entry := range strings.SplitSeq(string(text), ",") {
		entry = strings.TrimSpace(entry)
		addr, isAddress := parse(entry)
		network, err := netip.ParsePrefix(entry)
		switch {
		case entry == "":
		case isAddress:
			all.networks = append(all.networks, netip.PrefixFrom(addr, addr.BitLen()))
		case err == nil:
			all.networks = append(all.networks, network)
		case strings.ContainsAny(entry, "/: ") || strings.Trim(entry, "0123456789.") == "":
			return fmt.Errorf("%q is not a network, an address or a host name", entry)
		default:
			all.names = append(all.names, entry)
		}
	}
	*p = all
	return nil
}

// Clients determines the client addresses of requests.
type Clients struct {
	proxies  Proxies
	console  Secret
	resolved atomic.Pointer[map[netip.Addr]time.Time] // last lookup by address
	lookup   func(ctx context.Context, name string) ([]netip.Addr, error)
	now      func() time.Time
}

// NewClients returns a Clients that trusts the proxies, and the console if its secret is not empty.
func NewClients(p Proxies, console Secret) *Clients {
	lookup := func(ctx context.Context, name string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	}
	now := time.Now
	return &Clients{proxies: p, console: console, lookup: lookup, now: now}
}

// Follow resolves the proxies' host names, now and in the background until ctx ends.
func (c *Clients) Follow(ctx context.Context, log *slog.Logger) {
	if len(c.proxies.names) == 0 {
		return
	}
	c.resolve(ctx, log)
	go func() {
		ticker := time.NewTicker(resolveEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				c.resolve(ctx, log)
			}
		}
	}()
}

func (c *Clients) resolve(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	now := c.now()
	found := map[netip.Addr]time.Time{}
	if last := c.resolved.Load(); last != nil {
		for addr, at := range *last {
			if now.Sub(at) < resolvedFor {
				found[addr] = at
			}
		}
	}
	for _, name := range c.proxies.names {
		addresses, err := c.lookup(ctx, name)
		if err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "resolve trusted proxy failed", "name", name, "error", err.Error())
		}
		for _, addr := range addresses {
			found[addr.Unmap().WithZone("")] = now
		}
	}
	c.resolved.Store(&found)
}

func (c *Clients) trusts(addr netip.Addr) bool {
	for _, network := range c.proxies.networks {
		if network.Contains(addr) {
			return true
		}
	}
	if found := c.resolved.Load(); found != nil {
		_, ok := (*found)[addr]
		return ok
	}
	return false
}
