package contexts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/tests/check"
)

var sample = Context{
	Name: "prod", URL: "https://sluice.example.com", Project: "shop", Environment: "prod",
	Username: "ada", Token: "t0ken", ExpiresAt: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC), Device: "d3vice",
}

func TestPutGetDelete(t *testing.T) {
	t.Parallel()
	d := Dir(filepath.Join(t.TempDir(), "sluice"))
	if names, err := d.Names(); err != nil || len(names) != 0 {
		t.Errorf("names of an empty directory: got %v, %v", names, err)
	}
	if name, err := d.Current(); err != nil || name != "" {
		t.Errorf("current context of an empty directory: got %q, %v", name, err)
	}
	check.OK(t, d.Put(sample))
	got, err := d.Get("prod")
	if diff := cmp.Diff(sample, got); diff != "" || err != nil {
		t.Errorf("context (-want +got): %v\n%s", err, diff)
	}
	check.OK(t, d.Use("prod"))
	if name, err := d.Current(); err != nil || name != "prod" {
		t.Errorf("current context: got %q, %v, want prod", name, err)
	}
	if err := errors.Join(d.Delete("prod"), d.UseNone(), d.UseNone()); err != nil {
		t.Error(err)
	}
	if name, err := d.Current(); err != nil || name != "" {
		t.Errorf("current context after UseNone: got %q, %v", name, err)
	}
	for what, err := range map[string]error{"Use": d.Use("prod"), "Delete": d.Delete("prod")} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", what, err)
		}
	}
	if _, err := d.Get("prod"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get: got %v, want ErrNotFound", err)
	}
}

func TestFilesAreReadableOnlyByTheOwner(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := Dir(filepath.Join(root, "sluice"))
	check.OK(t, d.Put(sample))
	err := filepath.WalkDir(string(d), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("mode of %s: got %v, want no access for others", path, info.Mode())
		}
		return err
	})
	check.OK(t, err)
	check.OK(t, os.Chmod(d.path("prod"), 0o644))
	if _, err := d.Get("prod"); err == nil || !strings.Contains(err.Error(), "is readable by other users") {
		t.Errorf("file that others can read: got %v", err)
	}
	if err := d.Put(sample); err != nil { // replaces the file
		t.Fatal(err)
	}
	if _, err := d.Get("prod"); err != nil {
		t.Error(err)
	}
}

func TestConcurrentWritesAreAtomic(t *testing.T) {
	t.Parallel()
	d := Dir(t.TempDir())
	check.OK(t, d.Put(sample))
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 50 {
				if err := d.Put(sample); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 200 {
		if got, err := d.Get("prod"); err != nil || got != sample {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	writers.Wait()
	if names, err := d.Names(); err != nil || cmp.Diff([]string{"prod"}, names) != "" {
		t.Errorf("names: got %v, %v, want prod", names, err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	d := Dir(t.TempDir())
	for name, want := range map[string]bool{
		"prod": true, "sluice.example.com": true, "127.0.0.1-8080": true, "A_b": true, strings.Repeat("x", 63): true,
		"": false, ".": false, "..": false, "../prod": false, "a/b": false, ".new-1": false, "-x": false, "a\n": false, "ä": false, strings.Repeat("x", 64): false,
	} {
		if got := CheckName(name) == nil; got != want {
			t.Errorf("CheckName(%q): got %v, want %v", name, got, want)
		}
		if c := sample; !want {
			c.Name = name
			if err := d.Put(c); !errors.Is(err, ErrName) {
				t.Errorf("Put(%q): got %v, want ErrName", name, err)
			}
		}
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		xdg, home string
		want      Dir
	}{
		{"XDG", "/x", "/h", "/x/sluice"},
		{"home", "", "/h", "/h/.config/sluice"},
		{"relative XDG", "x", "/h", "/h/.config/sluice"},
		{"neither", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Default(func(k string) string { return map[string]string{"XDG_CONFIG_HOME": tt.xdg, "HOME": tt.home}[k] })
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
