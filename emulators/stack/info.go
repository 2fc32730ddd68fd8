package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

const infoFile = "stack.json"

// Info is the content of stack.json. Only the file's owner can read it, because it contains
// secrets.
type Info struct {
	BaseURL    string `json:"base_url"`    // e.g. "http://localhost:8080"
	IngressURL string `json:"ingress_url"` // address to dial for all hosts, e.g. "http://127.0.0.1:8080"
	ConsoleURL string `json:"console_url"`

	Admin Admin `json:"admin"`

	// The checkers, e.g. "https://127.0.0.10:8086". Their certificate is valid for CheckerName.
	Checkers       []string `json:"checkers"`
	CheckerName    string   `json:"checker_name"`
	CheckerURL     string   `json:"checker_url"` // of their Service, which routes to the stand-in if no checker is ready
	Standin        string   `json:"standin"`     // e.g. "https://127.0.0.3:8086"
	CheckerCA      string   `json:"checker_ca"`
	CheckerMetrics []string `json:"checker_metrics"` // e.g. "http://127.0.0.10:8087/metrics"

	// Functions are addresses inside the cluster by name, e.g. "http://127.60.12.3:8080".
	Functions map[string]string `json:"functions"`

	// Metrics are addresses by process, e.g. "keys" and "checker-0".
	Metrics map[string]string `json:"metrics"`

	IssuerURL string `json:"issuer_url"`

	Kubeconfig            string `json:"kubeconfig"`
	EtcdURL               string `json:"etcd_url"`
	FirestoreEmulatorHost string `json:"firestore_emulator_host"`
	Project               string `json:"project"`

	PIDs    map[string]int `json:"pids"` // by process; "stack" is the stack itself
	Demo    *Demo          `json:"demo,omitempty"`
	LogsDir string         `json:"logs_dir"`
}

// Admin is the first admin's sign-in.
type Admin struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// Demo is the app of a new stack.
type Demo struct {
	AppURL string `json:"app_url"` // e.g. "http://hello.shop-prod.localhost:8080"
	Key    string `json:"key"`
	KeyID  string `json:"key_id"`
}

// Info returns the content of stack.json.
func (s *Stack) Info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.info
	if s.attached {
		return info
	}
	info.PIDs = map[string]int{"stack": os.Getpid()}
	for name, m := range s.services {
		info.PIDs[name] = m.Pid()
	}
	return info
}

func (s *Stack) describe() {
	info := Info{
		BaseURL:               s.baseURL(),
		ConsoleURL:            s.baseURL() + "/console",
		IngressURL:            "http://" + s.o.local(ingressPort),
		Admin:                 Admin{Username: adminUsername, Password: s.password},
		CheckerName:           s.addresses[checkerService],
		CheckerURL:            s.gateURL(checkerService),
		Standin:               "https://" + s.o.at(standinHost, checkerPort),
		CheckerCA:             s.checkerCA(),
		IssuerURL:             s.issuerURL(),
		Kubeconfig:            s.path("kube/kubeconfig"),
		EtcdURL:               "http://" + s.o.local(etcdPort),
		FirestoreEmulatorHost: s.o.local(firestorePort),
		Project:               project,
		LogsDir:               s.logs(),
	}
	info.Functions, info.Metrics = map[string]string{}, map[string]string{}
	for name := range s.addresses {
		if name != checkerService && name != replicasService {
			info.Functions[name] = s.functionURL(name)
			info.Metrics[name] = s.metricsURL(name)
		}
	}
	for _, r := range s.replicas {
		metrics := "http://" + s.o.at(r.host(), metricsPort) + "/metrics"
		info.Checkers = append(info.Checkers, "https://"+s.o.at(r.host(), checkerPort))
		info.CheckerMetrics = append(info.CheckerMetrics, metrics)
		info.Metrics[r.process()] = metrics
	}
	info.Metrics[standinFunction] = "http://" + s.o.at(standinHost, metricsPort) + "/metrics"
	s.mu.Lock()
	s.info = info
	s.mu.Unlock()
}

func (s *Stack) writeInfo() error {
	text, err := json.MarshalIndent(s.Info(), "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", infoFile, err)
	}
	return replaceFile(s.path(infoFile), append(text, '\n'))
}

// replaceFile writes a file atomically, for its owner only.
func replaceFile(file string, text []byte) error {
	part, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = part.Write(text)
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// Table returns the addresses of the stack and commands to try.
func (i Info) Table() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "  %s\t%s\n", name, value)
		}
	}
	row("Management API", i.BaseURL+"/api/v1")
	row("Console", i.ConsoleURL)
	row("Admin sign-in", i.Admin.Username+" / "+i.Admin.Password)
	if i.Demo != nil {
		row("Demo app", i.Demo.AppURL)
		row("Demo key", i.Demo.Key)
	}
	row("Checkers", strings.Join(i.Checkers, "  "))
	row("Kubernetes", "KUBECONFIG="+i.Kubeconfig)
	row("Firestore", "FIRESTORE_EMULATOR_HOST="+i.FirestoreEmulatorHost)
	row("Logs", i.LogsDir)
	_ = w.Flush() // never fails for a strings.Builder
	if i.Demo != nil {
		_, _ = fmt.Fprintf(&out, "\nTry these commands in another shell. The first request is denied, the second is allowed, and the last command signs in.\n\n  curl -i %s\n  curl -i -H 'X-API-Key: %s' %s\n"+
			"  echo %s | .local/sluice login %s --username %s --password-stdin\n",
			i.Demo.AppURL, i.Demo.Key, i.Demo.AppURL, i.Admin.Password, i.BaseURL, i.Admin.Username)
	}
	return out.String()
}
