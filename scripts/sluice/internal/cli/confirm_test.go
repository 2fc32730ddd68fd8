package cli

import (
	"strings"
	"testing"
)

// asking are the commands that cannot be taken back.
var asking = []string{
	"project delete shop",
	"environment delete prod",
	"member remove bob",
	"plan delete plan-starter",
	"key revoke key-ab12cd34",
	"app delete hello",
	"app rollback hello",
	"app git remove site",
	"app webhook disable hello",
	"context delete test",
}

// TestConfirmation: they ask on a terminal, refuse elsewhere, and go ahead with --yes.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		terminal bool
		typed    string
		yes      bool
		exit     int
		end      string // of standard error
	}{
		{"in a script", false, "", false, 2, "error: Not on a terminal: pass --yes to go ahead without being asked. (confirmation_required)\n"},
		{"in a script that answers", false, "y\n", false, 2, "(confirmation_required)\n"},
		{"in a script with --yes", false, "", true, 0, ""},
		{"yes", true, "y\n", false, 0, "? [y/N] "},
		{"yes in full", true, "YES\n", false, 0, " [y/N] "},
		{"no", true, "n\n", false, 1, "error: Nothing was changed. (aborted)\n"},
		{"just enter", true, "\n", false, 1, "(aborted)\n"},
		{"end of input", true, "", false, 1, "(aborted)\n"},
		{"something else", true, "sure\n", false, 1, "(aborted)\n"},
	}
	for _, command := range asking {
		for _, tt := range tests {
			t.Run(command+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				f := newFake(t, shop())
				p := newPerson(t, f.URL)
				p.terminal, p.stdin = tt.terminal, tt.typed
				args := strings.Fields(command)
				if tt.yes {
					args = append(args, "--yes")
				}
				r := p.runs(args...)
				if r.exit != tt.exit || (!strings.Contains(r.err, tt.end) && tt.name != "yes") {
					t.Errorf("%s", r)
				}
				changed := len(f.requests()) > 0 || strings.HasPrefix(command, "context") && r.exit == 0
				if changed != (tt.exit == 0) {
					t.Errorf("exit %d after %q", r.exit, f.requests())
				}
			})
		}
	}
}
