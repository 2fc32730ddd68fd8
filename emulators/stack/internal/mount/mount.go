// Package mount writes a directory as a kubelet mounts a Secret: the files are links through
// "..data", which is replaced atomically, so a reader sees either all old or all new files.
package mount

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

const (
	dataLink = "..data"
	newLink  = "..data_tmp" // replaces dataLink
	prefix   = "..generation-"
)

// Write makes dir contain exactly the given files. It does nothing if dir already contains
// them. Calls for the same directory must not overlap.
func Write(dir string, files map[string][]byte) error {
	for name := range files {
		if name == "" || strings.HasPrefix(name, "..") || strings.ContainsRune(name, filepath.Separator) {
			return fmt.Errorf("mount %s: invalid file name %q", dir, name)
		}
	}
	if same(dir, files) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := swap(dir, files); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

func same(dir string, files map[string][]byte) bool {
	entries, err := os.ReadDir(filepath.Join(dir, dataLink))
	if err != nil || len(entries) != len(files) {
		return false
	}
	current := map[string][]byte{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return false
		}
		current[e.Name()] = b
	}
	return maps.EqualFunc(current, files, func(a, b []byte) bool { return string(a) == string(b) })
}

func swap(dir string, files map[string][]byte) error {
	generation, err := os.MkdirTemp(dir, prefix)
	if err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(generation, name), b, 0o600); err != nil {
			return err
		}
	}
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	link := filepath.Join(dir, newLink)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(generation), link); err != nil {
		return err
	}
	if err := os.Rename(link, filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if err := relink(dir, files); err != nil {
		return err
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, old))
}

func relink(dir string, files map[string][]byte) error {
	for name := range files {
		err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, wanted := files[e.Name()]; wanted || strings.HasPrefix(e.Name(), "..") {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
