package stack

import (
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
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
		"TRUST_PROXY":             "true", // Traefik is in front
		"METRICS_PORT":            strconv.Itoa(metricsTarget),
		"GOOGLE_CLOUD_PROJECT":    project,
		"FIRESTORE_EMULATOR_HOST": s.o.local(firestorePort),
		"SESSION_KEYS_DIR":        s.path("secrets/" + publicKeys),
	}
	if f.cluster {
		all["KUBECONFIG"] = s.accountFile(f)
	}
	maps.Copy(all, f.settings(s))
	maps.Copy(all, own)
	maps.Copy(all, s.o.Env[f.name])
	maps.Copy(all, s.o.Env[processOf(own["POD_NAME"])]) // a replica's own
	env := s.environment()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

func (s *Stack) sessionSettings() map[string]string {
	return map[string]string{
		"SESSION_KEYS_DIR": s.path("secrets/" + allKeys),
		"ADMIN_USERNAME":   adminUsername,
		"ADMIN_PASSWORD":   s.password,
	}
}

func (s *Stack) appsSettings() map[string]string {
	return map[string]string{
		"APPS_DOMAIN":      "localhost", // *.localhost needs no DNS
		"APP_HOST":         "{app}.{namespace}.{domain}",
		"APP_URL":          "http://{host}:" + strconv.Itoa(s.o.port(ingressPort)),
		"BASE_URL":         s.baseURL(),
		"WIRING_URL":       s.functionURL("wiring"),
		"DEPLOYS_URL":      s.functionURL("deploys"),
		"BUILDS_URL":       s.functionURL("builds"),
		"SYSTEM_NAMESPACE": systemNamespace,

		"REGISTRY_ALLOW_PRIVATE": "true", // those of tests are on this machine
	}
}

// Registries of tests are on this machine.
func (s *Stack) deploysSettings() map[string]string {
	return map[string]string{"REGISTRY_ALLOW_PRIVATE": "true"}
}

func (s *Stack) webhookSettings() map[string]string {
	return map[string]string{
		"REGISTRY_ALLOW_PRIVATE": "true",
		"BASE_URL":               s.baseURL(),
		"DEPLOYS_URL":            s.functionURL("deploys"),
		"BUILDS_URL":             s.functionURL("builds"),
	}
}

func (s *Stack) buildsSettings() map[string]string {
	return map[string]string{
		"REGISTRY_ALLOW_PRIVATE": "true",
		"DEPLOYS_URL":            s.functionURL("deploys"),
		"BUILDS_TOKEN":           s.eventsToken,
		"IMAGE_PREFIX":           "registry.example",
	}
}

func (s *Stack) standinSettings() map[string]string {
	return map[string]string{"CHECKERS_URL": s.gateURL(replicasService)}
}

func (s *Stack) wiringSettings() map[string]string {
	return map[string]string{
		"CHECKER_URL":        s.gateURL(checkerService),
		"INGRESS_URL":        "http://" + s.o.local(ingressPort),
		"CHECKER_TLS_SECRET": checkerSecret,
		"SYSTEM_NAMESPACE":   systemNamespace,
	}
}

// The console calls the management API as any client does, but signs people in at
// the function itself, which learns their addresses from it.
func (s *Stack) consoleSettings() map[string]string {
	return map[string]string{
		"API_URL":     "http://" + s.o.local(ingressPort),
		"SESSION_URL": s.functionURL("session"),
		"TRUST_PROXY": "true",
	}
}

// functionURL is where a function listens, e.g. "http://127.60.12.3:8080"; "" of
// one that the checkout has no program of.
func (s *Stack) functionURL(service string) string {
	if s.addresses[service] == "" {
		return ""
	}
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

// baseURL is {base_url} of the specification.
func (s *Stack) baseURL() string { return "http://localhost:" + strconv.Itoa(s.o.port(ingressPort)) }
