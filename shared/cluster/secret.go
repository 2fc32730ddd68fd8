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
	// caSecretName is the Secret with the checkers' CA in each app's namespace. A Middleware cannot
	// use a Secret in another namespace.
	caSecretName = "sluice-checker-ca" //nolint:gosec // a name

	caEntry = "ca.crt"
)

// SecretType is the type of a Secret.
type SecretType string

// The types of Secrets.
const (
	OpaqueSecret SecretType = "Opaque"
	TLSSecret    SecretType = "kubernetes.io/tls" //nolint:gosec // a type, with tls.crt and tls.key
)

// Secret is a Kubernetes Secret that Sluice reads or writes.
type Secret struct {
	Namespace string
	Name      string
	Type      SecretType
	Data      map[string][]byte
	Managed   bool

	version string // "" if it does not exist yet
}

// LogValue returns only the name.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.Namespace + "." + s.Name) }

// Exists reports whether the Secret was read from the cluster.
func (s Secret) Exists() bool { return s.version != "" }

// Secret reads a Secret. It returns a not_found problem if the Secret does not exist.
func (c *Cluster) Secret(ctx context.Context, namespace, name string) (Secret, error) {
	return secretOf(c.secrets(namespace).get(ctx, name))
}

// WriteSecret creates a Secret, or replaces one that was read. It returns a conflict problem if the
// Secret was created or changed concurrently.
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

// WriteCA writes the checkers' CA, one or more PEM certificates, to an app's namespace.
func (c *Cluster) WriteCA(ctx context.Context, o Objects, ref app.Ref, ca []byte) error {
	s := Secret{Namespace: ref.Namespace, Name: caSecretName, Type: OpaqueSecret, Data: map[string][]byte{caEntry: ca}}
	if o.ca != nil {
		s.version, s.Type = o.ca.ResourceVersion, SecretType(o.ca.Type) // a Secret's type cannot change
	}
	_, err := c.WriteSecret(ctx, s)
	return err
}

func caStatus(s *corev1.Secret, ca []byte) Status {
	return statusOf(s == nil, s != nil && hasAll(s.Labels, managed()) && len(s.Data) == 1 && bytes.Equal(s.Data[caEntry], ca))
}
