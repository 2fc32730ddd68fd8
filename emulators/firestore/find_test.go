package firestore

import (
	"path/filepath"
	"testing"
)

func TestJavaMajor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, out string
		want      int
		fails     bool
	}{
		{name: "17", out: "openjdk version \"17.0.15\" 2025-04-15\n", want: 17},
		{name: "8", out: "java version \"1.8.0_392\"\n", want: 8},
		{name: "early access", out: "openjdk version \"26-ea\" 2026-03-17\n", want: 26},
		{name: "11 with options picked up", out: "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"11.0.2\"\n", want: 11},
		{name: "nothing", out: "command not found", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := javaMajor(tt.out)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %d, %v, want %d, error %v", got, err, tt.want, tt.fails)
			}
		})
	}
}

func TestJarFromVariable(t *testing.T) {
	t.Setenv(jarVariable, filepath.Join(t.TempDir(), "none.jar"))
	if jar, err := Jar(t.Context()); err == nil {
		t.Errorf("got %q for a file that does not exist, want an error", jar)
	}
}
