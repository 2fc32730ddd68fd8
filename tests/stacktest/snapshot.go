package stacktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/check"
)

// Snapshot contains the stored state of a site: Secrets, Deployments and documents. It omits
// webhook receipts, which calls without an effect also create, and summaries, which rollup writes.
type Snapshot map[string]string

// Snapshot reads the state.
func (s *Site) Snapshot() Snapshot {
	s.T.Helper()
	all := s.Documents()
	namespace := s.Project + "-" + s.Env
	for name := range all {
		if strings.Contains(name, "/receipts/") || strings.Contains(name, "/summaries/") || !strings.Contains(all[name], namespace) && !strings.Contains(name, namespace) {
			delete(all, name)
		}
	}
	api := Kubernetes(s.T, s.Stack)
	secrets, err := api.CoreV1().Secrets(namespace).List(s.T.Context(), metav1.ListOptions{})
	s.must(err)
	for _, o := range secrets.Items {
		all["Secret "+o.Name] = s.text(o.Data)
	}
	for _, o := range s.webhookTokens(api) {
		all["Secret "+o.Name] = s.text(o.Data)
	}
	deployments, err := api.AppsV1().Deployments(namespace).List(s.T.Context(), metav1.ListOptions{})
	s.must(err)
	for _, o := range deployments.Items {
		all["Deployment "+o.Name] = s.text(o.Spec)
	}
	return all
}

// Kubernetes returns an administrator's client.
func Kubernetes(t testing.TB, s *stack.Stack) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Info().Kubeconfig)
	check.OK(t, err)
	api, err := kubernetes.NewForConfig(config)
	check.OK(t, err)
	return api
}

func (s *Site) webhookTokens(api kubernetes.Interface) []corev1.Secret {
	s.T.Helper()
	list, err := api.CoreV1().Secrets("sluice-webhooks").List(s.T.Context(), metav1.ListOptions{})
	s.must(err)
	return slices.DeleteFunc(list.Items, func(o corev1.Secret) bool {
		return !strings.HasPrefix(o.Name, s.Project+"-"+s.Env+".")
	})
}

// Documents reads all documents by path.
func (s *Site) Documents() Snapshot {
	s.T.Helper()
	c := Store(s.T, s.Stack)
	all := Snapshot{}
	for _, group := range []string{
		"projects", "environments", "namespaces", "users", "hosts", "apps", "deployments", "builds", "pending_builds", "announcements",
		"plans", "keys", "keylist", "summaries", "counters", "rollups", "marks", "thresholds", "deliveries", "receipts", "sessions", "audit",
	} {
		docs := c.CollectionGroup(group).Documents(s.T.Context())
		for {
			doc, err := docs.Next()
			if errors.Is(err, iterator.Done) {
				break
			}
			s.must(err)
			all[fmt.Sprintf("document %s/%s", doc.Ref.Parent.Path, doc.Ref.ID)] = s.text(doc.Data())
		}
	}
	return all
}

func (s *Site) text(v any) string {
	s.T.Helper()
	b, err := json.Marshal(v)
	s.must(err)
	return string(b)
}

// Store opens the store as the owner, who bypasses the security rules.
func Store(t testing.TB, s *stack.Stack) *firestore.Client {
	t.Helper()
	info := s.Info()
	conn, err := grpc.NewClient("passthrough:///"+info.FirestoreEmulatorHost,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}))
	check.OK(t, err)
	c, err := firestore.NewClient(t.Context(), info.Project, option.WithGRPCConn(conn))
	check.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }
