package app

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
)

func TestValidLabel(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in         string
		label, namespace bool
	}{
		{"one letter", "a", true, true},
		{"one digit", "1", true, true},
		{"hyphens inside", "a-b--c", true, true},
		{"longest label", strings.Repeat("a", 40), true, true},
		{"longer than a label", strings.Repeat("a", 41), false, true},
		{"longest namespace", strings.Repeat("a", 63), false, true},
		{"longer than a namespace", strings.Repeat("a", 64), false, false},
		{"empty", "", false, false},
		{"hyphen first", "-a", false, false},
		{"hyphen last", "a-", false, false},
		{"only a hyphen", "-", false, false},
		{"upper case", "Shop", false, false},
		{"dot", "a.b", false, false},
		{"dots", "..", false, false},
		{"slash", "a/b", false, false},
		{"underscore", "a_b", false, false},
		{"space", "a b", false, false},
		{"new line", "a\n", false, false},
		{"NUL", "a\x00", false, false},
		{"not ASCII", "caf\u00e9", false, false},
		{"digits of another script", "\u0661", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := ValidLabel(tt.in); got != tt.label {
				t.Errorf("ValidLabel(%q) = %t", tt.in, got)
			}
			if got := ValidNamespace(tt.in); got != tt.namespace {
				t.Errorf("ValidNamespace(%q) = %t", tt.in, got)
			}
			err := CheckLabel("project", tt.in)
			if tt.label && err != nil || !tt.label && !problem.Is(err, problem.InvalidName) {
				t.Errorf("CheckLabel(%q) = %v", tt.in, err)
			}
		})
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"a": true, "hello": true, "a1": true, "h-2": true, strings.Repeat("a", 40): true,
		"": false, "1": false, "1st": false, "0hello": false, "-a": false, "a-": false, "A": false, strings.Repeat("a", 41): false, "a.b": false, "\u00e9": false,
	} {
		if err := CheckName(name); ok && err != nil || !ok && !problem.Is(err, problem.InvalidName) {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	if ns, err := Namespace("shop", "prod"); err != nil || ns != "shop-prod" {
		t.Errorf("Namespace = %q, %v", ns, err)
	}
	long := strings.Repeat("a", 40)
	if ns, err := Namespace(long, long[:22]); err != nil || len(ns) != 63 || !ValidNamespace(ns) {
		t.Errorf("the longest namespace = %q, %v", ns, err)
	}
	if ns, err := Namespace(long, long[:23]); !problem.Is(err, problem.InvalidName) {
		t.Errorf("one character more = %q, %v", ns, err)
	}
}

func TestParseRef(t *testing.T) {
	t.Parallel()
	ref := Ref{Namespace: "shop-prod", Name: "hello"}
	if got, ok := ParseRef(ref.String()); !ok || got != ref {
		t.Errorf("%s came back as %v, %t", ref, got, ok)
	}
	if got := (App{Namespace: "shop-prod", Name: "hello"}).Ref(); got != ref {
		t.Errorf("an app's ref is %v", got)
	}
	for _, s := range []string{"", ".", "a.", ".a", "a", "a.b.c", "a/b.c", "A.b", "canary.Checker", "a.b\n"} {
		if got, ok := ParseRef(s); ok {
			t.Errorf("ParseRef(%q) = %v", s, got)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"shop-prod.hello", "a.b", "..", "a.b.c", strings.Repeat("a", 63) + "." + strings.Repeat("b", 40)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, ok := ParseRef(s)
		if !ok {
			return
		}
		if ref.String() != s || !ValidNamespace(ref.Namespace) || !ValidLabel(ref.Name) || strings.ContainsAny(s, "/\x00 ") {
			t.Errorf("ParseRef(%q) = %v", s, ref)
		}
	})
}

func FuzzNames(f *testing.F) {
	for _, s := range [][2]string{{"a", "b"}, {"a-b", "c"}, {"-a", "b"}, {"", ""}, {"A", "b"}, {"a.b", "c"}, {"a\n", "b"}, {"é", "b"}} {
		f.Add(s[0], s[1])
	}
	label := regexp.MustCompile(`\A[a-z0-9]([-a-z0-9]*[a-z0-9])?\z`)
	f.Fuzz(func(t *testing.T, project, environment string) {
		for _, s := range []string{project, environment} {
			if got, want := ValidLabel(s), len(s) <= 40 && label.MatchString(s); got != want {
				t.Errorf("ValidLabel(%q) = %t", s, got)
			}
			if (CheckLabel("project", s) == nil) != ValidLabel(s) {
				t.Errorf("CheckLabel(%q) differs", s)
			}
			if got, want := CheckName(s) == nil, ValidLabel(s) && s[0] >= 'a'; got != want {
				t.Errorf("CheckName(%q) takes it: %t", s, got)
			}
		}
		if !ValidLabel(project) || !ValidLabel(environment) {
			return
		}
		ns, err := Namespace(project, environment)
		if (err == nil) != (len(project)+len(environment) < 63) || err == nil && !ValidNamespace(ns) {
			t.Errorf("Namespace(%q, %q) = %q, %v", project, environment, ns, err)
		}
	})
}
