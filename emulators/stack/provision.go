package stack

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

const (
	systemNamespace = "sluice-system"
	adminUsername   = "admin"

	// Names of Secrets.
	sessionSecret = "sluice-session-keys" //nolint:gosec // the name of one
	checkerSecret = "sluice-checker-tls"  //nolint:gosec // the name of one
)

// provision makes what the functions find in their namespace: a Service for each, and
// the session keys.
func (s *Stack) provision(ctx context.Context) error {
	for _, f := range functions() {
		ip, err := s.makeService(ctx, f)
		if err != nil {
			return err
		}
		s.addresses[f.service()] = ip
	}
	keys, err := sessionKeys(time.Now()) //nolint:forbidigo // the start of the stack names them
	if err != nil {
		return err
	}
	secret := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: sessionSecret}, Data: keys}
	if _, err := s.api.CoreV1().Secrets(systemNamespace).Create(ctx, secret, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("make Secret %s: %w", sessionSecret, err)
	}
	s.password, s.eventsToken = rand.Text(), rand.Text()+rand.Text()
	return nil
}

// makeService makes a function's Service and gives its cluster IP. It has no
// selector: there are no pods.
func (s *Stack) makeService(ctx context.Context, f function) (string, error) {
	port := core.ServicePort{Name: "http", Port: functionPort}
	if f.name == checkerFunction || f.name == standinFunction {
		port = core.ServicePort{Name: "https", Port: checkerTarget}
	}
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Name: f.service()},
		Spec:       core.ServiceSpec{Ports: []core.ServicePort{port}},
	}
	made, err := s.api.CoreV1().Services(systemNamespace).Create(ctx, service, meta.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make Service %s: %w", f.service(), err)
	}
	return made.Spec.ClusterIP, nil
}

// sessionKeys makes one key that signs sessions. Its name is the day, so that one
// that is added later comes later in order.
func sessionKeys(now time.Time) (map[string][]byte, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a session key: %w", err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("encode a session key: %w", err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encode a session key: %w", err)
	}
	kid := now.UTC().Format(time.DateOnly) + "a"
	return map[string][]byte{
		kid + privateSuffix: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}),
		kid + publicSuffix:  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}),
	}, nil
}

// authorize makes the namespace, the functions' service accounts and their rights,
// from the manifests, the same as in any cluster.
func (s *Stack) authorize(ctx context.Context) error {
	for _, dir := range []string{"infra/system", "infra/rbac"} {
		list, err := manifests(filepath.Join(s.o.Root, filepath.FromSlash(dir)))
		if err != nil {
			return fmt.Errorf("read %s: %w", dir, err)
		}
		if err := s.apply(ctx, list); err != nil {
			return fmt.Errorf("apply %s: %w", dir, err)
		}
	}
	return nil
}

func (s *Stack) apply(ctx context.Context, objects []*unstructured.Unstructured) error {
	applier, err := manifest.NewApplier(s.config)
	if err != nil {
		return err
	}
	return applier.Apply(ctx, objects)
}

// manifests reads the files that a kustomization without overlays lists.
func manifests(dir string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var k struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, name := range k.Resources {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		list, err := manifest.Decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

const (
	routesFile = "infra/traefik/routes.yaml"

	// hostRule is what routes.yaml leaves open: the hosts of {base_url}.
	hostVariable = "${SLUICE_HOST_RULE}"
	hostRule     = "Host(`localhost`) || Host(`127.0.0.1`)"
)

// route applies the routes of the management API, as in a cluster.
func (s *Stack) route(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(s.o.Root, routesFile))
	if err != nil {
		return fmt.Errorf("read the routes: %w", err)
	}
	objects, err := manifest.Decode([]byte(strings.ReplaceAll(string(text), hostVariable, hostRule)))
	if err != nil {
		return fmt.Errorf("read %s: %w", routesFile, err)
	}
	return s.apply(ctx, objects)
}
