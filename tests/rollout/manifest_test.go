package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// TestStandinManifests: the API server takes the stand-in's objects as they are
// shipped, every field of them.
func TestStandinManifests(t *testing.T) {
	text, err := os.ReadFile("../../infra/standin/standin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", world.Info().Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(document); err != nil {
			t.Fatal(err)
		}
		if o.GetName() == "sluice-checker-replicas" {
			o.SetName("dry-run") // the stack has one of its own by that name
		}
		plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		_, err = client.Resource(plural).Namespace(o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
		if err != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
		kinds[o.GetKind()]++
	}
	if kinds["Deployment"] != 1 || kinds["Service"] != 1 || len(kinds) != 2 {
		t.Errorf("objects: %v", kinds)
	}
}
