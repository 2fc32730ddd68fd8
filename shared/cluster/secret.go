package cluster

import (
	"bytes"
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
)

const (
	// caSecretName is the Secret of each app's namespace that holds the checker's
	// CA: a Middleware can only name a Secret of its own namespace.
	caSecretName = "sluice-checker-ca" //nolint:gosec // a name

	// caEntry is where Traefik looks for it.
	caEntry = "ca.crt"
)

// SecretType says what a Secret's entries are.
type SecretType string

// The types of Secrets.
const (
	OpaqueSecret SecretType = "Opaque"
	TLSSecret    SecretType = "kubernetes.io/tls" //nolint:gosec // a type, with tls.crt and tls.key
)

// Secret is a Kubernetes Secret of Sluice's own.
type Secret struct {
	Namespace string
	Name      string
	Type      SecretType
	Data      map[string][]byte
	Managed   bool // it carries Sluice's label; one that was read and does not is somebody else's

	version string // "" before it exists
}

// LogValue keeps what is in it out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.Namespace + "." + s.Name) }

// Exists tells whether the Secret came from the cluster.
func (s Secret) Exists() bool { return s.version != "" }

// Secret reads a Secret. Problem: not_found.
func (c *Cluster) Secret(ctx context.Context, namespace, name string) (Secret, error) {
	return secretOf(c.secrets(namespace).get(ctx, name))
}

// WriteSecret creates a Secret, or replaces the one that it was read from.
// Problem: conflict when it has changed since, or is there already.
func (c *Cluster) WriteSecret(ctx context.Context, s Secret) (Secret, error) {
	return secretOf(c.secrets(s.Namespace).write(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: managed(), ResourceVersion: s.version},
		Type:       corev1.SecretType(s.Type),
		Data:       s.Data,
	}))
}

func secretOf(s *corev1.Secret, err error) (Secret, error) {
	if err != nil {
		return Secret{}, err
	}
	return Secret{
		Namespace: s.Namespace, Name: s.Name, Type: SecretType(s.Type), Data: s.Data,
		Managed: hasAll(s.Labels, managed()), version: s.ResourceVersion,
	}, nil
}

// WriteCA puts the checker's CA into an app's namespace, where the app's
// Middleware finds it. ca is PEM, one or more certificates.
func (c *Cluster) WriteCA(ctx context.Context, o Objects, ref app.Ref, ca []byte) error {
	s := Secret{Namespace: ref.Namespace, Name: caSecretName, Type: OpaqueSecret, Data: map[string][]byte{caEntry: ca}}
	if o.ca != nil {
		s.version, s.Type = o.ca.ResourceVersion, SecretType(o.ca.Type) // a Secret's type can never change
	}
	_, err := c.WriteSecret(ctx, s)
	return err
}

func caStatus(s *corev1.Secret, ca []byte) Status {
	return statusOf(s == nil, s != nil && hasAll(s.Labels, managed()) && len(s.Data) == 1 && bytes.Equal(s.Data[caEntry], ca))
}
