package stack

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path/filepath"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

const (
	systemNamespace = manifest.Namespace
	adminUsername   = "admin"

	sessionSecret = "sluice-session-keys" //nolint:gosec // the name of one
	checkerSecret = "sluice-checker-tls"  //nolint:gosec // the name of one
)

func (s *Stack) provision(ctx, life context.Context) error {
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{
		Name: systemNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if _, err := s.api.CoreV1().Namespaces().Create(ctx, namespace, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", systemNamespace, err)
	}
	for _, f := range functions() {
		ip, err := s.makeService(ctx, f)
		if err != nil {
			return err
		}
		s.addresses[f.service()] = ip
	}
	keys, err := sessionKeys(time.Now()) //nolint:forbidigo // the start time is part of their names
	if err != nil {
		return err
	}
	secret := &core.Secret{ObjectMeta: meta.ObjectMeta{Name: sessionSecret}, Data: keys}
	if _, err := s.api.CoreV1().Secrets(systemNamespace).Create(ctx, secret, meta.CreateOptions{}); err != nil {
		return fmt.Errorf("create Secret %s: %w", sessionSecret, err)
	}
	s.password, s.eventsToken, s.consoleToken = rand.Text(), rand.Text()+rand.Text(), rand.Text()+rand.Text()
	s.describe()
	if err := s.startIssuer(ctx); err != nil {
		return err
	}
	return s.mountSecrets(life)
}

// makeService creates a function's Service, without a selector because there are no pods, and
// returns its cluster IP.
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
		return "", fmt.Errorf("create Service %s: %w", f.service(), err)
	}
	return made.Spec.ClusterIP, nil
}

// sessionKeys returns a key pair whose name starts with the date, so that later keys sort after
// it.
func sessionKeys(now time.Time) (map[string][]byte, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a session key: %w", err)
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

// applyChart applies the objects that also matter outside the cluster, such as accounts,
// permissions and routes. Nothing enforces the network policies, but the API server must accept
// them.
func (s *Stack) applyChart(ctx context.Context) error {
	all, err := manifest.Chart(s.o.Root, "--values", filepath.Join(s.o.Root, "emulators", "stack", "values.yaml"))
	if err != nil {
		return err
	}
	applier, err := manifest.NewApplier(s.config)
	if err != nil {
		return err
	}
	return applier.Apply(ctx, manifest.OfKinds(all,
		"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "NetworkPolicy", "IngressRoute", "ServersTransport"))
}
