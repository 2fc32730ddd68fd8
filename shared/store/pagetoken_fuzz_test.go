package store

import (
	"path"
	"strings"
	"testing"
)

// FuzzValidID: an id that a page token may hold names a document of its collection
// and nothing else, whatever joins it to a path.
func FuzzValidID(f *testing.F) {
	for _, id := range []string{"key-ab12cd34", "shop-prod.hello", "", ".", "..", "a/b", "__name__", "__id7__", "____", "a\x00b", "é", strings.Repeat("a", 600), "%2e%2e"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if !validID(id) {
			return
		}
		const root = "projects/p/databases/(default)/documents/keys/"
		if joined := path.Clean(root + id); joined != root+id || path.Base(joined) != id || path.Dir(joined)+"/" != root {
			t.Errorf("%q names %q", id, joined)
		}
		if strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__") {
			t.Errorf("%q is Firestore's own", id)
		}
	})
}
