package cli

import (
	"slices"
	"strings"
	"testing"
)

// asking lists the commands that ask for confirmation, the input that confirms, and the flag that
// scripts need ("" if none).
var asking = []struct{ command, types, passes string }{
	{"app rollback hello", "y", ""},
	{"app git remove site", "y", ""},
	{"app webhook disable hello", "y", ""},
	{"app webhook enable hello", "y", ""}, // it is already enabled
	{"app gate off hello", "y", "--yes"},
	{"app gate on hello", "y", ""},
	{"plan update plan-starter --quota 500", "y", ""}, // two keys used more
	{"key rotate key-zz99yy88", "y", ""},              // its previous secret is still valid
	{"key revoke key-ab12cd34", "y", "--yes"},
	{"quota release key-ab12cd34", "y", "--yes"},
	{"member remove bob", "y", "--yes"},
	{"admin deactivate-user bob", "y", ""},
	{"admin activate-user bob", "y", ""},
	{"admin end-sessions bob", "y", ""},
	{"admin grant-admin bob", "y", ""},
	{"admin revoke-admin bob", "y", ""},
	{"admin remove-user bob", "bob", "--confirm bob"},
	{"token revoke infrastructure", "y", "--yes"},
	{"project delete shop", "shop", "--confirm shop"},
	{"environment delete prod", "prod", "--confirm prod"},
	{"plan delete plan-starter", "plan-starter", "--confirm plan-starter"},
	{"app delete hello", "hello", "--confirm hello"},
	{"context delete test", "test", "--confirm test"},
}

func TestConfirmation(t *testing.T) {
	t.Parallel()
	const question, aborted, required = " [y/N] ", "error: Nothing was changed. (aborted)\n", "(confirmation_required)\n"
	for _, c := range asking {
		script, ends := 0, ""
		if c.passes != "" {
			script, ends = 2, "error: This command needs confirmation. Without a terminal, pass "+c.passes+". (confirmation_required)\n"
		}
		question, other := question, 0
		if c.types != "y" {
			question, other = " Type "+c.types+" to confirm: ", 1
		}
		tests := []struct {
			name             string
			terminal, unseen bool
			typed, flag      string
			exit             int
			has              string // standard error
		}{
			{name: "in a script", exit: script, has: ends},
			{name: "in a script with input", typed: c.types + "\n", exit: script, has: ends},
			{name: "in a script with its flag", flag: c.passes},
			{name: "in a script with --yes", flag: "--yes"},
			{name: "standard error is not a terminal", unseen: true, typed: c.types + "\n", exit: 2, has: required},
			{name: "yes", terminal: true, typed: c.types + "\n", has: question},
			{name: "yes in full", terminal: true, typed: "YES\n", exit: other, has: question},
			{name: "its flag on a terminal", terminal: true, flag: c.passes, typed: c.types + "\n"},
			{name: "--yes on a terminal", terminal: true, flag: "--yes"},
			{name: "no", terminal: true, typed: "n\n", exit: 1, has: aborted},
			{name: "just enter", terminal: true, typed: "\n", exit: 1, has: aborted},
			{name: "end of input", terminal: true, exit: 1, has: aborted},
			{name: "something else", terminal: true, typed: "sure\n", exit: 1, has: aborted},
		}
		for _, tt := range tests {
			t.Run(c.command+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				f := newFake(t, shop())
				p := newPerson(t, f.URL)
				p.terminal, p.unseen, p.stdin = tt.terminal, tt.unseen, tt.typed
				r := p.runs(strings.Fields(c.command + " " + tt.flag)...)
				if r.exit != tt.exit || !strings.Contains(r.err, tt.has) {
					t.Errorf("got %swant exit %d and %q", r, tt.exit, tt.has)
				}
				changed := sentChange(f) || strings.HasPrefix(c.command, "context") && r.exit == 0
				if changed != (tt.exit == 0) {
					t.Errorf("got exit %d, want %d, after requests %q", r.exit, tt.exit, f.requests())
				}
			})
		}
	}
}

func sentChange(f *fake) bool {
	return slices.ContainsFunc(f.requests(), func(request string) bool {
		return !strings.HasPrefix(request, "GET ") && !strings.Contains(request, "/forecast ")
	})
}

func TestConfirmWithAnotherName(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"--confirm helo", "--confirm helo --yes"} {
		f := newFake(t, shop())
		r := newPerson(t, f.URL).runs(strings.Fields("app delete hello " + flags)...)
		if want := `error: --confirm must be "hello", not "helo"; nothing was changed (usage)` + "\n"; r.exit != 2 || r.err != want || len(f.requests()) > 0 {
			t.Errorf("got %safter requests %q, want %s", r, f.requests(), want)
		}
	}
}

// A change that invalidates nothing in use needs no confirmation.
func TestHarmlessChangeNeedsNoConfirmation(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"app webhook enable site", "key rotate key-ab12cd34",
		"plan update plan-starter --rate 20", "plan update plan-starter --no-quota", "plan update plan-metered --quota 500",
	} {
		f := newFake(t, shop())
		p := newPerson(t, f.URL)
		p.terminal = true
		if r := p.runs(strings.Fields(command)...); strings.Contains(r.err, "[y/N]") || !sentChange(f) {
			t.Errorf("sluice %s: %s", command, r)
		}
	}
}
