package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

func TestVersionPattern(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"v2.1.0": true, "v10.0.3-rc.1": true, "2.1.0": false, "v2.1": false, "v02.1.0": false, "v2.1.0 x": false, "v2.1.0-": false, "v2.1.0+build": false,
	} {
		if got := versionPattern.MatchString(version); got != want {
			t.Errorf("%q: got %t, want %t", version, got, want)
		}
	}
}

// TestPackageChart packages the chart twice, and compares the package with the chart.
func TestPackageChart(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_790_000_000, 0)
	chart := os.DirFS("../../infra/chart")
	first, err := packageChart(chart, "9.8.7-rc.1", at)
	check.OK(t, err)
	second, err := packageChart(chart, "9.8.7-rc.1", at)
	check.OK(t, err)
	if !bytes.Equal(first, second) {
		t.Error("got different packages of the same chart")
	}
	files := unpack(t, first)
	for _, line := range []string{"\nversion: 9.8.7-rc.1\n", "\nappVersion: v9.8.7-rc.1\n", "\nname: sluice\n"} {
		if !strings.Contains(files["sluice/Chart.yaml"], line) {
			t.Errorf("Chart.yaml does not contain %q:\n%s", line, files["sluice/Chart.yaml"])
		}
	}
	values, err := os.ReadFile("../../infra/chart/values.yaml")
	check.OK(t, err)
	if files["sluice/values.yaml"] != string(values) || files["sluice/templates/NOTES.txt"] == "" {
		t.Error("the package lacks files of the chart")
	}
	for name := range files {
		if strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".helmignore") {
			t.Errorf("the package contains %s", name)
		}
	}
}

func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	check.OK(t, err)
	files := map[string]string{}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		check.OK(t, err)
		content, err := io.ReadAll(r)
		check.OK(t, err)
		files[h.Name] = string(content)
	}
}

// TestBillOfMaterials checks that two programs share the entries of the modules that both
// link.
func TestBillOfMaterials(t *testing.T) {
	t.Parallel()
	info := func(modules ...string) *buildinfo.BuildInfo {
		i := &buildinfo.BuildInfo{GoVersion: "go1.26.8"}
		for _, m := range modules {
			i.Deps = append(i.Deps, &debug.Module{Path: m, Version: "v1.0.0", Sum: "h1:x"})
		}
		return i
	}
	programs := []linked{{function("keys"), merge(info("a.example/x"), info("b.example/y"))}, {commandLine(), info("b.example/y")}}
	text, err := billOfMaterials("sluice", programs, map[string]string{"a.example/x": "MIT"}, source{release: "v2.1.0", at: time.Unix(0, 0).UTC()})
	check.OK(t, err)
	var doc spdxDocument
	check.OK(t, json.Unmarshal(text, &doc))
	var got []string
	for _, p := range doc.Packages {
		got = append(got, p.Name+" "+p.VersionInfo+" "+p.LicenseDeclared)
	}
	slices.Sort(got)
	check.Equal(t, "packages", []string{
		"a.example/x v1.0.0 MIT", "b.example/y v1.0.0 NOASSERTION",
		module + "/functions/keys v2.1.0 NOASSERTION", module + "/scripts/sluice v2.1.0 NOASSERTION", "std 1.26.8 BSD-3-Clause",
	}, got)
	if got, want := len(doc.Relationships), 2+5; got != want {
		t.Errorf("relationships: got %d, want %d", got, want)
	}
}

func TestWriteFiles(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "new", "release")
	files := map[string][]byte{"images/keys.tar": []byte("image"), "sluice.tgz": []byte("chart")}
	files["SHA256SUMS"] = checksums(files)
	check.OK(t, writeFiles(out, files))
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	check.OK(t, err)
	check.Equal(t, "checksums", fmt.Sprintf("%x  images/keys.tar\n%x  sluice.tgz\n", sha256.Sum256([]byte("image")), sha256.Sum256([]byte("chart"))), string(sums))
	if err := writeFiles(out, files); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second release in the same folder: got %v, want %v", err, os.ErrExist)
	}
}
