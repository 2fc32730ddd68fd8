package testclock

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// clockUse matches calls of the clock and its use as a value.
var clockUse = regexp.MustCompile(`\btime\.Now\b`)

const local = "testclockNow"

// helper is added to each package that uses the clock.
const helper = `package %s

import (
	"time"

	"github.com/sluicegate/sluice/tests/chaos/testclock"
)

func ` + local + `() time.Time { return testclock.Now() }
`

// Overlay writes copies of the sources below root that use this package's clock, and the file for
// "go build -overlay", whose path it returns. All files are below dir. It returns an error if no
// source uses the clock.
func Overlay(root, dir string, folders ...string) (string, error) {
	o := overlay{dir: dir, replace: map[string]string{}}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return o.take(path)
		})
		if err != nil {
			return "", fmt.Errorf("replace the clock in %s: %w", folder, err)
		}
	}
	if len(o.replace) == 0 {
		return "", fmt.Errorf("no source in %v uses the clock", folders)
	}
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		return "", fmt.Errorf("encode the overlay: %w", err)
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

type overlay struct {
	dir     string
	replace map[string]string
}

func (o *overlay) take(path string) error {
	text, err := os.ReadFile(path)
	if err != nil || !clockUse.Match(text) {
		return err
	}
	name, err := packageName(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// Package time may now be unused.
	changed := clockUse.ReplaceAllString(string(text), local) + "\nvar _ time.Time\n"
	if err := o.put(path, changed); err != nil {
		return err
	}
	return o.put(filepath.Join(filepath.Dir(path), "zz_testclock.go"), fmt.Sprintf(helper, name))
}

func (o *overlay) put(path, text string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	copied, ok := o.replace[path]
	if !ok {
		copied = filepath.Join(o.dir, strconv.Itoa(len(o.replace))+".go")
		o.replace[path] = copied
	}
	return os.WriteFile(copied, []byte(text), 0o600)
}

// packageName returns the name in a source's package clause.
func packageName(text []byte) (string, error) {
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "package "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", fmt.Errorf("no package clause")
}
