package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/sluicegate/sluice/emulators/internal/ports"
)

// DefaultPortBase is the ingress port of a stack that is not told another.
const DefaultPortBase = 8080

// ports of a stack, counted from its base. Functions but the checkers need none:
// each listens on port 8080 of its Service's cluster IP.
const (
	ingressPort   = iota // +0, on 127.0.0.1 and [::1]
	firestorePort        // +1
	apiPort              // +2, kube-apiserver; its cluster IPs derive from it too
	etcdPort             // +3
	etcdPeerPort         // +4
	internalPort         // +5, Traefik's /ping and /metrics
	checkerPort          // +6 and +7, https; also on 127.0.0.2 for those that replace them, and on 127.0.0.3 the stand-in
	_                    //
	metricsPort          // +8 and +9, the checkers' /metrics, on the same addresses
	_                    //
	workloadsPort        // +10, the workloads emulator's /healthz
	buildsPort           // +11, the builds emulator's /healthz
	portCount            // a stack side by side has a base at least this much higher
)

const checkers = 2 // replicas

func (o Options) port(offset int) int { return o.PortBase + offset }

// local is a port of the stack as an address, e.g. "127.0.0.1:8081".
func (o Options) local(offset int) string { return o.at("127.0.0.1", offset) }

// at is the same port on another loopback address.
func (o Options) at(host string, offset int) string {
	return net.JoinHostPort(host, strconv.Itoa(o.port(offset)))
}

// checkPorts makes sure that every port is free, and names those that are not.
func (o Options) checkPorts(ctx context.Context) error {
	if o.PortBase < 1024 || o.PortBase+portCount > 65535 {
		return fmt.Errorf("port base %d: must be from 1024 to %d", o.PortBase, 65535-portCount)
	}
	var taken error
	for offset := range portCount {
		taken = errors.Join(taken, ports.Check(ctx, "127.0.0.1", o.port(offset)))
	}
	if taken != nil {
		return fmt.Errorf("%w\nstop what uses it, or choose other ports: SLUICE_PORT_BASE=%d make up", taken, o.PortBase+100)
	}
	return nil
}
