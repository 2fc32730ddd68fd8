package rollup

import (
	"log/slog"
	"testing"

	"github.com/sluicegate/sluice/tests/storetest"
)

func TestOnceRunsOnEmptyStore(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", storetest.Project(t))
	if err := Once(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
}

func TestOnceFails(t *testing.T) {
	tests := []struct{ name, project, host, seconds string }{
		{"no project", "", "", "50"},
		{"no store", "test-none", "127.0.0.1:1", "1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOOGLE_CLOUD_PROJECT", tt.project)
			t.Setenv("FIRESTORE_EMULATOR_HOST", tt.host)
			t.Setenv("ROLLUP_RUN_SECONDS", tt.seconds)
			if err := Once(t.Context(), slog.New(slog.DiscardHandler)); err == nil {
				t.Error("got no error")
			}
		})
	}
}
