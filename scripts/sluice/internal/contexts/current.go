package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Current is the name of the context in use, "" when there is none.
func (d Dir) Current() (string, error) {
	b, err := os.ReadFile(filepath.Join(string(d), "current"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("read the current context: %w", err)
	}
	name := strings.TrimSpace(string(b))
	if name == "" {
		return "", nil
	}
	if err := CheckName(name); err != nil {
		return "", fmt.Errorf("read the current context: %w", err)
	}
	return name, nil
}

// Use makes a context the current one. Errors: ErrName, ErrNotFound.
func (d Dir) Use(name string) error {
	if _, err := d.Get(name); err != nil {
		return err
	}
	if err := replace(filepath.Join(string(d), "current"), []byte(name+"\n")); err != nil {
		return fmt.Errorf("use context %s: %w", name, err)
	}
	return nil
}

// replace writes a whole file that only its owner can read, or leaves it as it was.
func replace(path string, content []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// UseNone leaves no context current.
func (d Dir) UseNone() error {
	if err := os.Remove(filepath.Join(string(d), "current")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("use no context: %w", err)
	}
	return nil
}
