package stack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"

	"github.com/sluicegate/sluice/emulators/internal/ports"
)

// passed are the variables that processes take over from the stack's own: no
// KUBECONFIG or credentials of the person's, which could reach a real cluster.
func passed() []string {
	return []string{"PATH", "HOME", "TMPDIR", "GODEBUG", "GORACE", "GOTRACEBACK", "GOCOVERDIR"}
}

// environment is what each process of the stack's own programs has.
func (s *Stack) environment() []string {
	env := s.mark()
	for _, name := range passed() {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// functionEnvironment is the environment of a function that listens on host and
// port. own are the settings of this process alone.
func (s *Stack) functionEnvironment(f function, host string, port int, own map[string]string) []string {
	all := map[string]string{
		"HOST": host, "PORT": strconv.Itoa(port),
		"FUNCTION_TARGET":         f.name,
		"LOG_LEVEL":               "info",
		"TRUSTED_PROXIES":         "127.0.0.0/8,::1", // Traefik
		"CONSOLE_TOKEN":           s.consoleToken,
		"METRICS_PORT":            strconv.Itoa(metricsTarget),
		"GOOGLE_CLOUD_PROJECT":    project,
		"FIRESTORE_EMULATOR_HOST": s.o.local(firestorePort),
		"SESSION_KEYS_DIR":        s.path("secrets/" + publicKeys),
	}
	if s.o.ManyCalls {
		all["API_RATE"], all["API_BURST"] = "100000", "1000000"
	}
	if f.cluster {
		all["KUBECONFIG"] = s.accountFile(f)
	}
	maps.Copy(all, s.settings()[f.name])
	maps.Copy(all, own)
	maps.Copy(all, s.o.Env[f.name])
	maps.Copy(all, s.o.Env[processOf(own["POD_NAME"])]) // a replica's own
	env := s.environment()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// private is the setting of functions that may call registries on this machine.
const private = "true"

// settings adds to the environment that all functions have, by function.
func (s *Stack) settings() map[string]map[string]string {
	return map[string]map[string]string{
		"session": {
			"SESSION_KEYS_DIR": s.path("secrets/" + allKeys),
			"ADMIN_USERNAME":   adminUsername,
			"ADMIN_PASSWORD":   s.password,
		},
		"apps": {
			"APPS_DOMAIN":            "localhost", // *.localhost needs no DNS
			"APP_HOST":               "{app}.{namespace}.{domain}",
			"APP_URL":                "http://{host}:" + strconv.Itoa(s.o.port(ingressPort)),
			"BASE_URL":               s.baseURL(),
			"WIRING_URL":             s.functionURL("wiring"),
			"DEPLOYS_URL":            s.functionURL("deploys"),
			"BUILDS_URL":             s.functionURL("builds"),
			"OIDC_ISSUERS":           s.issuerURL(),
			"SYSTEM_NAMESPACE":       systemNamespace,
			"REGISTRY_ALLOW_PRIVATE": private,
		},
		"webhook": {
			"REGISTRY_ALLOW_PRIVATE": private,
			"OIDC_ISSUERS":           s.issuerURL(),
			"BASE_URL":               s.baseURL(),
			"DEPLOYS_URL":            s.functionURL("deploys"),
			"BUILDS_URL":             s.functionURL("builds"),
		},
		"deploys": {"REGISTRY_ALLOW_PRIVATE": private},
		"keys":    {"CHECKER_URL": s.gateURL(checkerService), "CHECKER_CA_FILE": s.checkerCA()},
		"usage":   {"CHECKER_URL": s.gateURL(checkerService), "CHECKER_CA_FILE": s.checkerCA()},
		"builds": {
			"REGISTRY_ALLOW_PRIVATE": private,
			"DEPLOYS_URL":            s.functionURL("deploys"),
			"BUILDS_TOKEN":           s.eventsToken,
			"IMAGE_PREFIX":           "registry.example",
		},
		"wiring": {
			"BASE_URL":           s.baseURL(),
			"CHECKER_URL":        s.gateURL(checkerService),
			"INGRESS_URL":        "http://" + s.o.local(ingressPort),
			"CHECKER_TLS_SECRET": checkerSecret,
			"SYSTEM_NAMESPACE":   systemNamespace,
		},
		"console":       {"API_URL": "http://" + s.o.local(ingressPort)},
		checkerFunction: {"TLS_DIR": s.path("secrets/" + checkerSecret)},
		standinFunction: {"TLS_DIR": s.path("secrets/" + checkerSecret), "CHECKERS_URL": s.gateURL(replicasService)},
	}
}

// functionURL is where a function listens, e.g. "http://127.60.12.3:8080".
func (s *Stack) functionURL(service string) string {
	return "http://" + net.JoinHostPort(s.addresses[service], strconv.Itoa(functionPort))
}

// gateURL is where a Service of the checkers leads to them, e.g.
// "https://127.60.12.3:8443".
func (s *Stack) gateURL(service string) string {
	return "https://" + net.JoinHostPort(s.addresses[service], strconv.Itoa(checkerTarget))
}

// metricsURL is where a function serves its metrics, on a port that no Service has.
func (s *Stack) metricsURL(service string) string {
	return "http://" + net.JoinHostPort(s.addresses[service], strconv.Itoa(metricsTarget)) + "/metrics"
}

// baseURL is where the API and the console are.
func (s *Stack) baseURL() string { return "http://localhost:" + strconv.Itoa(s.o.port(ingressPort)) }

// issuerURL is the CI system that issues tokens to pipelines.
func (s *Stack) issuerURL() string { return "http://" + s.o.local(issuerPort) }

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
	checkerPort          // +6, https; each checker has a loopback address of its own, and so has the stand-in
	metricsPort          // +7, the checkers' /metrics, on the same addresses
	workloadsPort        // +8, the workloads emulator's /healthz
	buildsPort           // +9, the builds emulator's /healthz
	issuerPort           // +10, of the CI system that issues tokens to pipelines
	portCount            // a stack side by side has a base at least this much higher
)

// How many checkers a stack has.
const (
	DefaultCheckers = 2 // of a stack that is not told another number
	mostCheckers    = 8
)

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
