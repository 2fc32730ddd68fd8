package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// versionPattern is Semantic Versioning with a "v" and without build metadata.
var versionPattern = regexp.MustCompile(`^v(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// entry is a file in an archive or a folder.
type entry struct {
	name    string // slash-separated path
	mode    fs.FileMode
	content []byte
}

// all writes a release to the folder out, which must not exist:
//
//	sluice_2.1.0_SYSTEM_ARCHITECTURE.tar.gz    the command line
//	sluice-2.1.0.tgz                           the chart
//	images/FUNCTION.tar                        an OCI image layout
//	sluice_2.1.0.spdx.json                     the bill of materials of all programs
//	SHA256SUMS                                 checksums of the other files
func all(ctx context.Context, version, out string) error {
	src, err := releaseSource(ctx, version)
	if err != nil {
		return err
	}
	functions, err := selectFunctions(nil)
	if err != nil {
		return err
	}
	number := strings.TrimPrefix(version, "v")
	files := map[string][]byte{}
	bill := map[string]linked{}
	var mu sync.Mutex
	err = forEach(ctx, append(functions, commandLine()), func(ctx context.Context, p program) error {
		var made map[string][]byte
		var l linked
		var err error
		if p == commandLine() {
			made, l, err = commandLineArchives(ctx, number, src)
		} else {
			made, l, err = imageLayout(ctx, p, src)
		}
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(files, made)
		bill[p.name] = l
		return err
	})
	if err != nil {
		return err
	}
	if files["sluice-"+number+".tgz"], err = packageChart(os.DirFS("infra/chart"), number, src.at); err != nil {
		return err
	}
	if files["sluice_"+number+".spdx.json"], err = releaseBill(ctx, bill, src); err != nil {
		return err
	}
	files["SHA256SUMS"] = checksums(files)
	return writeFiles(out, files)
}

// releaseSource describes the checkout for a release. It returns an error if the version is
// invalid, or if the commit does not identify the sources.
func releaseSource(ctx context.Context, version string) (source, error) {
	if !versionPattern.MatchString(version) {
		return source{}, fmt.Errorf("version %q: must have the form v2.1.0 or v2.1.0-rc.1", version)
	}
	src, err := readSource(ctx)
	if err != nil {
		return source{}, err
	}
	if src.revision == "" {
		return source{}, errors.New("the current folder is not a git checkout")
	}
	if changed, err := output(ctx, "git", "status", "--porcelain"); err != nil || len(changed) > 0 {
		return source{}, errors.Join(err, fmt.Errorf("the checkout has uncommitted changes; commit or remove them:\n%s", changed))
	}
	src.version, src.release = version, version
	return src, nil
}

// commandLineArchives returns an archive of the command line for each platform.
func commandLineArchives(ctx context.Context, number string, src source) (map[string][]byte, linked, error) {
	files, l := map[string][]byte{}, linked{program: commandLine()}
	for _, platform := range []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64"} {
		system, architecture, _ := strings.Cut(platform, "/")
		content, info, err := compile(ctx, l.program, system, architecture, src)
		if err != nil {
			return nil, linked{}, fmt.Errorf("%s: %w", platform, err)
		}
		archive, err := compress([]entry{{"sluice", 0o755, content}}, src.at)
		if err != nil {
			return nil, linked{}, err
		}
		files["sluice_"+number+"_"+system+"_"+architecture+".tar.gz"] = archive
		l.info = merge(l.info, info)
	}
	return files, l, nil
}

// imageLayout returns a tar file with the OCI image layout of a function's index.
func imageLayout(ctx context.Context, f program, src source) (map[string][]byte, linked, error) {
	images, err := buildImages(ctx, f, defaultPlatforms(true), src)
	if err != nil {
		return nil, linked{}, err
	}
	index, err := indexOf(f.name, images, src)
	if err != nil {
		return nil, linked{}, err
	}
	dir, err := os.MkdirTemp("", "sluice-layout-")
	if err != nil {
		return nil, linked{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := layout.Write(dir, index); err != nil {
		return nil, linked{}, err
	}
	entries, err := readAll(os.DirFS(dir), "")
	if err != nil {
		return nil, linked{}, err
	}
	archive, err := pack(entries, src.at)
	l := linked{program: f}
	for _, b := range images {
		l.info = merge(l.info, b.info)
	}
	return map[string][]byte{"images/" + f.name + ".tar": archive}, l, err
}

// packageChart returns the chart as a package that Helm can install, with the version of
// the release.
func packageChart(chart fs.FS, number string, at time.Time) ([]byte, error) {
	entries, err := readAll(chart, "sluice/")
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { // as in .helmignore
		return path.Ext(e.name) == ".md" || path.Base(e.name) == ".helmignore"
	})
	i := slices.IndexFunc(entries, func(e entry) bool { return e.name == "sluice/Chart.yaml" })
	if i < 0 {
		return nil, errors.New("the chart has no Chart.yaml")
	}
	set := regexp.MustCompile(`(?m)^(version|appVersion): (v?)\S+$`)
	if n := len(set.FindAll(entries[i].content, -1)); n != 2 {
		return nil, fmt.Errorf("read Chart.yaml: got %d lines of version and appVersion, want 2", n)
	}
	entries[i].content = set.ReplaceAll(entries[i].content, []byte("$1: ${2}"+number))
	return compress(entries, at)
}

// releaseBill returns the bill of materials of all programs of a release.
func releaseBill(ctx context.Context, programs map[string]linked, src source) ([]byte, error) {
	licenses := map[string]string{}
	var sorted []linked
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		found, err := moduleLicenses(ctx, programs[name].program)
		if err != nil {
			return nil, err
		}
		maps.Copy(licenses, found)
		sorted = append(sorted, programs[name])
	}
	return billOfMaterials("sluice", sorted, licenses, src)
}

// readAll returns the files of a folder, sorted by name, with prefix before their names.
func readAll(dir fs.FS, prefix string) (entries []entry, err error) {
	err = fs.WalkDir(dir, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(dir, name)
		entries = append(entries, entry{prefix + name, 0o644, content})
		return err
	})
	return entries, err
}

// pack returns a tar file. All entries have the modification time at.
func pack(entries []entry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode), Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.name, err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// compress returns a gzip-compressed tar file.
func compress(entries []entry, at time.Time) ([]byte, error) {
	plain, err := pack(entries, at)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// checksums returns a file for "sha256sum --check".
func checksums(files map[string][]byte) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sum := sha256.Sum256(files[name])
		b.WriteString(hex.EncodeToString(sum[:]) + "  " + name + "\n")
	}
	return b.Bytes()
}

// writeFiles writes files to a new folder and prints their checksums.
func writeFiles(out string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o750); err != nil {
		return err
	}
	if err := os.Mkdir(out, 0o750); err != nil {
		return fmt.Errorf("create folder for the release: %w", err)
	}
	for name, content := range files {
		file := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil { //nolint:gosec // a release is public
			return err
		}
	}
	fmt.Print(string(files["SHA256SUMS"]))
	return nil
}
