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

// inheritedVariables returns the names of inherited variables. They exclude KUBECONFIG and
// credentials, with which a function could reach a real cluster.
func inheritedVariables() []string {
	return []string{"PATH", "HOME", "TMPDIR", "GODEBUG", "GORACE", "GOTRACEBACK", "GOCOVERDIR"}
}

func (s *Stack) environment() []string {
	env := s.mark()
	for _, name := range inheritedVariables() {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func (s *Stack) functionEnvironment(f function, host string, port int, own map[string]string) []string {
	all := map[string]string{
		"HOST": host, "PORT": strconv.Itoa(port),
		"FUNCTION_TARGET":         f.name,
		"LOG_LEVEL":               "info",
		"TRUSTED_PROXIES":         "127.0.0.0/8,::1",
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
	maps.Copy(all, s.o.Env[processOf(own["POD_NAME"])])
	env := s.environment()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

const private = "true"

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

// functionURL returns, for example, "http://127.60.12.3:8080".
func (s *Stack) functionURL(service string) string {
	return "http://" + net.JoinHostPort(s.addresses[service], strconv.Itoa(functionPort))
}

func (s *Stack) gateURL(service string) string {
	return "https://" + net.JoinHostPort(s.addresses[service], strconv.Itoa(checkerTarget))
}

func (s *Stack) metricsURL(service string) string {
	return "http://" + net.JoinHostPort(s.addresses[service], strconv.Itoa(metricsTarget)) + "/metrics"
}

func (s *Stack) baseURL() string { return "http://localhost:" + strconv.Itoa(s.o.port(ingressPort)) }

func (s *Stack) issuerURL() string { return "http://" + s.o.local(issuerPort) }

// DefaultPortBase is the default ingress port.
const DefaultPortBase = 8080

// Ports relative to the port base. Functions other than the checkers and the stand-in listen on
// port 8080 of their Service's cluster IP.
const (
	ingressPort = iota // on 127.0.0.1 and [::1]
	firestorePort
	apiPort // determines the range of cluster IPs
	etcdPort
	etcdPeerPort
	internalPort
	checkerPort // HTTPS; each checker and the stand-in have their own loopback address
	metricsPort
	workloadsPort // /healthz of the workloads emulator
	buildsPort    // /healthz of the builds emulator
	issuerPort    // CI system that issues tokens to pipelines
	portCount     // minimum distance between two port bases
)

// Numbers of checkers.
const (
	DefaultCheckers = 2
	mostCheckers    = 8
)

func (o Options) port(offset int) int { return o.PortBase + offset }

func (o Options) local(offset int) string { return o.at("127.0.0.1", offset) }

func (o Options) at(host string, offset int) string {
	return net.JoinHostPort(host, strconv.Itoa(o.port(offset)))
}

func (o Options) checkPorts(ctx context.Context) error {
	if o.PortBase < 1024 || o.PortBase+portCount > 65535 {
		return fmt.Errorf("port base %d: must be from 1024 to %d", o.PortBase, 65535-portCount)
	}
	var taken error
	for offset := range portCount {
		taken = errors.Join(taken, ports.Check(ctx, "127.0.0.1", o.port(offset)))
	}
	if taken != nil {
		return fmt.Errorf("%w\nstop the program that uses it, or choose other ports: SLUICE_PORT_BASE=%d make up", taken, o.PortBase+100)
	}
	return nil
}
