package stacktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/api/iterator"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Snapshot is what is kept of a site: its environment's Secrets and workloads as
// they stand in the cluster, and every document of the store that belongs to it.
type Snapshot map[string]string

// Snapshot reads it all, by name, as text that can be compared and searched.
func (s *Site) Snapshot() Snapshot {
	s.T.Helper()
	all := s.Documents()
	namespace := s.Project + "-" + s.Env
	for name := range all {
		if !strings.Contains(all[name], namespace) && !strings.Contains(name, namespace) {
			delete(all, name)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.Stack.Info().Kubeconfig)
	s.must(err)
	api, err := kubernetes.NewForConfig(config)
	s.must(err)
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

// webhookTokens are the Secrets with the tokens of the environment's webhooks.
func (s *Site) webhookTokens(api kubernetes.Interface) []corev1.Secret {
	s.T.Helper()
	list, err := api.CoreV1().Secrets("sluice-webhooks").List(s.T.Context(), metav1.ListOptions{})
	s.must(err)
	return slices.DeleteFunc(list.Items, func(o corev1.Secret) bool {
		return !strings.HasPrefix(o.Name, s.Project+"-"+s.Env+".")
	})
}

// Documents reads every document of the stack's store, by path.
func (s *Site) Documents() Snapshot {
	s.T.Helper()
	c := Store(s.T, s.Stack)
	all := Snapshot{}
	for _, group := range []string{
		"projects", "environments", "users", "hosts", "apps", "deployments", "builds", "pending_builds", "announcements",
		"plans", "keys", "counters", "rollups", "marks", "deliveries", "sessions", "audit",
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
