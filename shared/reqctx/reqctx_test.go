package reqctx

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestIDOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, header string
		kept         bool
	}{
		{"none", "", false},
		{"plain", "a-B_9", true},
		{"a UUID", "0190f2a4-5c1e-7b1e-8d1a-2f6a1c9d3e4b", true},
		{"as long as may be", strings.Repeat("x", 64), true},
		{"longer", strings.Repeat("x", 65), false},
		{"a full key", "sluice_ab12cd34_" + strings.Repeat("a", 38), false},
		{"a blank", "a b", false},
		{"a line break", "a\nlevel=ERROR", false},
		{"a quote", `a"`, false},
		{"markup", "<b>", false},
		{"not ASCII", "é", false},
		{"a path", "../x", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := IDOf(http.Header{Header: {tt.header}})
			if tt.kept != (got == tt.header) || !ValidID(got) {
				t.Errorf("%q: got %q", tt.header, got)
			}
		})
	}
	if a, b := NewID(), NewID(); a == b {
		t.Error("two requests have the same ID")
	}
}

func TestActorOfContext(t *testing.T) {
	t.Parallel()
	bare := context.Background()
	SetActor(bare, Actor{User, "ada"}) // no effect without a request
	if got := ActorFrom(bare); got.Kind != System {
		t.Errorf("actor without a request: got %v", got)
	}
	ctx := Begin(bare, Request{ID: "r1", Address: "192.0.2.1"})
	if got := ActorFrom(ctx); got.Kind != Anonymous {
		t.Errorf("actor before authentication: got %v", got)
	}
	below, cancel := context.WithCancel(ctx)
	defer cancel()
	SetActor(below, Actor{User, "ada"})
	if got := ActorFrom(ctx); got != (Actor{User, "ada"}) {
		t.Errorf("actor in the parent context: got %v", got)
	}
	as := WithActor(ctx, Actor{Build, "build 7"})
	if ActorFrom(as).Name != "build 7" || ID(as) != "r1" || ActorFrom(ctx).Name != "ada" {
		t.Errorf("got actor %v in request %q, and %v in the parent context", ActorFrom(as), ID(as), ActorFrom(ctx))
	}
	if r, ok := FromContext(as); !ok || r.Address != "192.0.2.1" {
		t.Errorf("request: got %+v", r)
	}
}

func TestParentOf(t *testing.T) {
	t.Parallel()
	const ids = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
	for _, c := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"none", nil, ""},
		{"one", []string{"00-" + ids + "-01"}, "00-" + ids + "-01"},
		{"of a later version", []string{"cc-" + ids + "-01-what-the-future-will-be"}, "00-" + ids + "-01"},
		{"of a later version that says no more", []string{"cc-" + ids + "-00"}, "00-" + ids + "-00"},
		{"two", []string{"00-" + ids + "-01", "00-" + ids + "-01"}, ""},
		{"more than version 00 has", []string{"00-" + ids + "-01-x"}, ""},
		{"the version that there is not", []string{"ff-" + ids + "-01"}, ""},
		{"no trace", []string{"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}, ""},
		{"no parent", []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"}, ""},
		{"upper case", []string{"00-" + strings.ToUpper(ids) + "-01"}, ""},
		{"short", []string{"00-" + ids[1:] + "-01"}, ""},
		{"blanks", []string{" 00-" + ids + "-01"}, ""},
		{"a line break", []string{"cc-" + ids + "-01-\n"}, ""},
		{"empty", []string{""}, ""},
	} {
		head := http.Header{}
		for _, l := range c.lines {
			head.Add(ParentHeader, l)
		}
		if got := ParentOf(head); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := Logger(Logger(slog.New(slog.NewTextHandler(&out, nil))).With("function", "keys"))
	log.InfoContext(Begin(t.Context(), Request{ID: "r1"}), "in")
	log.InfoContext(t.Context(), "out")
	log.InfoContext(Begin(t.Context(), Request{ID: "r2", Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}), "traced")
	lines := strings.Split(out.String(), "\n")
	if strings.Count(lines[0], "request_id=r1") != 1 || !strings.Contains(lines[0], "function=keys") {
		t.Errorf("line in a request: got %s", lines[0])
	}
	if strings.Contains(lines[0], "trace_id") || strings.Count(lines[2], "trace_id=4bf92f3577b34da6a3ce929d0e0e4736") != 1 || !strings.Contains(lines[2], "request_id=r2") {
		t.Errorf("lines without and with a trace: got %s, %s", lines[0], lines[2])
	}
	if strings.Contains(lines[1], "request_id") {
		t.Errorf("line without a request: got %s", lines[1])
	}
}

func ExampleSetActor() {
	ctx := Begin(context.Background(), Request{ID: "r1"})
	SetActor(ctx, Actor{Kind: User, Name: "ada"})
	fmt.Println(ID(ctx), ActorFrom(ctx).Name)
	// Output: r1 ada
}
