// Package mount writes data into a directory the way a kubelet mounts a Secret:
// all files change at once. The files are links through "..data", a link that is
// swapped in one step, so a reader sees either all of the old or all of the new.
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
	dataLink = "..data"        // names a generation's directory
	newLink  = "..data_tmp"    // becomes dataLink
	prefix   = "..generation-" // of a generation's directory
)

// Write makes dir hold exactly the files given, by name. It changes nothing when
// that is so already. One goroutine at a time may write to a directory.
func Write(dir string, files map[string][]byte) error {
	for name := range files {
		if name == "" || strings.HasPrefix(name, "..") || strings.ContainsRune(name, filepath.Separator) {
			return fmt.Errorf("mount %s: no file can be called %q", dir, name)
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

// same tells whether dir holds these files and no others.
func same(dir string, files map[string][]byte) bool {
	entries, err := os.ReadDir(filepath.Join(dir, dataLink))
	if err != nil || len(entries) != len(files) {
		return false
	}
	held := map[string][]byte{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return false
		}
		held[e.Name()] = b
	}
	return maps.EqualFunc(held, files, func(a, b []byte) bool { return string(a) == string(b) })
}

// swap writes a new generation, points dataLink to it and drops the old one.
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

// relink makes the links that readers use: a new one for each new file, none for
// files that are gone.
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
