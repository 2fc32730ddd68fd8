package stepped

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

// clockUse is a use of the clock, as a call or as a value.
var clockUse = regexp.MustCompile(`\btime\.Now\b`)

// local is what stands for it in the copies.
const local = "steppedNow"

// helper is added to each package that uses the clock.
const helper = `package %s

import (
	"time"

	"github.com/sluicegate/sluice/tests/chaos/stepped"
)

func ` + local + `() time.Time { return stepped.Now() }
`

// Overlay writes copies of the sources in folders of the repository at root, with
// this package's clock in place of the machine's, and what "go build -overlay" needs
// to take them: it gives the path of that file. Everything is written below dir. It
// fails when it finds no use of the clock to replace.
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
			return "", fmt.Errorf("put the clock into %s: %w", folder, err)
		}
	}
	if len(o.replace) == 0 {
		return "", fmt.Errorf("nothing in %v uses the clock", folders)
	}
	text, err := json.Marshal(map[string]any{"Replace": o.replace})
	if err != nil {
		return "", fmt.Errorf("encode the overlay: %w", err)
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// overlay is what go build shall read instead of files.
type overlay struct {
	dir     string
	replace map[string]string // absolute paths: the file and its copy
}

// take copies one source that uses the clock.
func (o *overlay) take(path string) error {
	text, err := os.ReadFile(path)
	if err != nil || !clockUse.Match(text) {
		return err
	}
	name, err := packageName(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// The import of time may have lost its last use.
	changed := clockUse.ReplaceAllString(string(text), local) + "\nvar _ time.Time\n"
	if err := o.put(path, changed); err != nil {
		return err
	}
	return o.put(filepath.Join(filepath.Dir(path), "zz_stepped.go"), fmt.Sprintf(helper, name))
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

// packageName finds a source's package clause.
func packageName(text []byte) (string, error) {
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "package "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", fmt.Errorf("no package clause")
}
