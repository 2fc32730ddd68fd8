package builds

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

func TestToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	check.OK(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
	tests := []struct {
		name  string
		token Token
		file  string
		ok    bool
	}{
		{"environment", token, "", true},
		{"file", "", file, true},
		{"neither", "", "", false},
		{"both", token, file, false},
		{"no such file", "", file + "-not", false},
		{"too short", "0123456789abcdef", "", false},
		{"part of a path", "0123456789abcdef/0123456789abcdef", "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Token: test.token, TokenFile: test.file, ImagePrefix: "registry.example", ServiceAccount: "default", Timeout: time.Minute, PerApp: 1, Workers: 1}
			cfg, err := cfg.withToken()
			if err == nil {
				err = cfg.check()
			}
			if (err == nil) != test.ok || test.ok && cfg.Token != token {
				t.Errorf("got a token of %d bytes, error %v", len(cfg.Token), err)
			}
		})
	}
}
