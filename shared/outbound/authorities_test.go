package outbound

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func TestAuthorities(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	good := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	dir := t.TempDir()
	for name, content := range map[string][]byte{"good.pem": good, "none.pem": []byte("hello")} {
		check.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	system, err := Authorities("")
	check.OK(t, err)
	for name, want := range map[string]struct{ more, fails bool }{
		"good.pem": {true, false}, "none.pem": {false, true}, "missing.pem": {false, false}, ".": {false, true},
	} {
		got, err := Authorities(filepath.Join(dir, name))
		if (err != nil) != want.fails || err == nil && got.Equal(system) == want.more {
			t.Errorf("%s: %v", name, err)
		}
	}
}
