package manifest

import (
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	list, err := Decode([]byte("# only a comment\n---\nkind: A\nmetadata: {name: a}\n---\n---\nkind: B\nmetadata: {name: b}\n"))
	check.OK(t, err)
	var names []string
	for _, o := range list {
		names = append(names, o.GetKind()+" "+o.GetName())
	}
	check.Equal(t, "objects", []string{"A a", "B b"}, names)
	if list, err := Decode([]byte("kind: [")); err == nil {
		t.Errorf("invalid YAML: got %v, want an error", list)
	}
}
