package services_test

import (
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/services"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/long"
)

func TestStart(t *testing.T) {
	t.Parallel()
	long.Only(t) // other tests of a run also start them
	s, err := services.Start(t.Context(), services.Options{Progress: t.Output()})
	check.OK(t, err)
	variables := map[string]string{}
	for _, v := range s.Environment() {
		name, value, _ := strings.Cut(v, "=")
		variables[name] = value
	}
	if host := variables[services.FirestoreVariable]; host != s.Firestore.Host {
		t.Errorf("got emulator %q, want %q", host, s.Firestore.Host)
	}
	if err := s.Firestore.Answers(t.Context()); err != nil {
		t.Error(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", variables[services.KubeconfigVariable])
	check.OK(t, err)
	client, err := kubernetes.NewForConfig(config)
	check.OK(t, err)
	if _, err := client.Discovery().ServerResourcesForGroupVersion("traefik.io/v1alpha1"); err != nil {
		t.Errorf("Traefik's resources are not defined: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(variables[services.KubeconfigVariable]); !os.IsNotExist(err) {
		t.Errorf("kubeconfig after Close: got %v, want no file", err)
	}
}
