package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	list, err := Decode([]byte("# a comment alone\n---\nkind: A\nmetadata: {name: a}\n---\n---\nkind: B\nmetadata: {name: b}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range list {
		names = append(names, o.GetKind()+" "+o.GetName())
	}
	if diff := cmp.Diff([]string{"A a", "B b"}, names); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if list, err := Decode([]byte("kind: [")); err == nil {
		t.Errorf("Decode of no YAML = %v", list)
	}
}

func TestEstablished(t *testing.T) {
	t.Parallel()
	conditions := func(list ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": list}}}
	}
	tests := []struct {
		name string
		d    *unstructured.Unstructured
		want bool
	}{
		{"new", &unstructured.Unstructured{Object: map[string]any{}}, false},
		{"named only", conditions(map[string]any{"type": "NamesAccepted", "status": "True"}), false},
		{"not yet", conditions(map[string]any{"type": "Established", "status": "False"}), false},
		{"served", conditions(map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"}), true},
		{"odd", conditions("text"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := established(tt.d); got != tt.want {
				t.Errorf("established = %v", got)
			}
		})
	}
}
