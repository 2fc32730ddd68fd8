package manifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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
