// Package contexts stores contexts: the servers that a user has signed in to, each with its URL,
// session token, project and environment.
//
// The directory is $XDG_CONFIG_HOME/sluice, or ~/.config/sluice. Each context is a file,
// contexts/NAME.json. It is readable only by its owner and replaced atomically, so that concurrent
// commands do not damage it. A file that others can read is rejected. The file "current" contains
// the name of the current context.
package contexts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/client"
)

// Context is one server, with the session and the defaults of its commands.
type Context struct {
	Name        string // e.g. "prod"; the name of its file
	URL         string // e.g. "https://sluice.example.com"
	Project     string // default project, or ""
	Environment string // default environment, or ""
	Username    string // user of the last sign-in, or ""
	Token       client.Token
	ExpiresAt   time.Time // end of the session; zero without one

	// Device is the token by which the server recognizes this machine at the next sign-in.
	Device client.Token
}

type file struct {
	URL         string    `json:"url"`
	Project     string    `json:"project,omitempty"`
	Environment string    `json:"environment,omitempty"`
	Username    string    `json:"username,omitempty"`
	Token       string    `json:"token,omitempty"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	Device      string    `json:"device,omitempty"`
}

// ErrNotFound is returned if no context has the name.
var ErrNotFound = errors.New("no such context")

// ErrName is returned for an invalid context name.
var ErrName = errors.New("a context name must have 1 to 63 letters, digits, '.', '_' or '-', and begin with a letter or digit")

var nameFormat = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// CheckName returns ErrName if a context cannot have the name.
func CheckName(name string) error {
	if !nameFormat.MatchString(name) {
		return ErrName
	}
	return nil
}

// Dir is a directory of contexts. It need not exist.
type Dir string

// Default returns the user's directory. It returns an error if neither XDG_CONFIG_HOME nor HOME is
// an absolute path.
func Default(getenv func(string) string) (Dir, error) {
	if base := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		return Dir(filepath.Join(base, "sluice")), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return Dir(filepath.Join(home, ".config", "sluice")), nil
	}
	return "", errors.New("no directory for contexts: set HOME or XDG_CONFIG_HOME")
}

func (d Dir) path(name string) string { return filepath.Join(string(d), "contexts", name+".json") }

// Get reads a context. It returns ErrName or ErrNotFound, or an error if others can read its file.
func (d Dir) Get(name string) (Context, error) {
	if err := CheckName(name); err != nil {
		return Context{}, err
	}
	info, err := os.Stat(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, ErrNotFound
	} else if err != nil {
		return Context{}, fmt.Errorf("read context %s: %w", name, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return Context{}, fmt.Errorf("%s is readable by other users: run chmod 600 %s, then sign in again", d.path(name), d.path(name))
	}
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		return Context{}, fmt.Errorf("read context %s: %w", name, err)
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return Context{}, fmt.Errorf("read context %s: %s is not a context: %w", name, d.path(name), err)
	}
	return Context{
		Name: name, URL: f.URL, Project: f.Project, Environment: f.Environment,
		Username: f.Username, Token: client.Token(f.Token), ExpiresAt: f.ExpiresAt, Device: client.Token(f.Device),
	}, nil
}

// Put writes a context, and replaces one of the same name. It can return ErrName.
func (d Dir) Put(c Context) error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	b, err := json.MarshalIndent(file{
		URL: c.URL, Project: c.Project, Environment: c.Environment,
		Username: c.Username, Token: string(c.Token), ExpiresAt: c.ExpiresAt, Device: string(c.Device),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("save context %s: %w", c.Name, err)
	}
	if err := replace(d.path(c.Name), append(b, '\n')); err != nil {
		return fmt.Errorf("save context %s: %w", c.Name, err)
	}
	return nil
}

// Delete deletes a context. It can return ErrName or ErrNotFound.
func (d Dir) Delete(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("delete context %s: %w", name, err)
	}
	return nil
}

// Names returns the sorted names of the contexts.
func (d Dir) Names() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(string(d), "contexts"))
	if errors.Is(err, fs.ErrNotExist) {
		return []string{}, nil
	} else if err != nil {
		return nil, fmt.Errorf("list contexts: %w", err)
	}
	names := []string{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if ok && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names, nil
}

// Current returns the name of the current context, or "" if there is none.
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

// Use makes a context the current one. It can return ErrName or ErrNotFound.
func (d Dir) Use(name string) error {
	if _, err := d.Get(name); err != nil {
		return err
	}
	if err := replace(filepath.Join(string(d), "current"), []byte(name+"\n")); err != nil {
		return fmt.Errorf("use context %s: %w", name, err)
	}
	return nil
}

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

// UseNone clears the current context.
func (d Dir) UseNone() error {
	if err := os.Remove(filepath.Join(string(d), "current")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear the current context: %w", err)
	}
	return nil
}
