package app

import (
	"regexp"
	"testing"
)

// FuzzNames: names against the words of DNS, and namespaces against their parts.
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
