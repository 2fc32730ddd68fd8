package outbound

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestAuthorities(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	good := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	dir := t.TempDir()
	for name, content := range map[string][]byte{"good.pem": good, "none.pem": []byte("hello")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	system, err := Authorities("")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ more, fails bool }{
		"good.pem": {true, false}, "none.pem": {false, true}, "missing.pem": {false, false}, ".": {false, true},
	} {
		got, err := Authorities(filepath.Join(dir, name))
		if (err != nil) != want.fails || err == nil && got.Equal(system) == want.more {
			t.Errorf("%s: %v", name, err)
		}
	}
}
