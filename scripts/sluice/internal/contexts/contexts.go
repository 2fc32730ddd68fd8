// Package contexts keeps the servers that a person has signed in to: for each its
// address, the session's token, and the project and environment to work in.
//
// Each context is a file of its own, contexts/NAME.json, readable by its owner alone
// and replaced atomically, so that two commands at once cannot tear or lose each
// other's. A file that others can read is not used: its token is no secret any more.
// The file "current" holds the name of the context in use.
//
// The directory is $XDG_CONFIG_HOME/sluice, or ~/.config/sluice.
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

// Context is one server and what is done there.
type Context struct {
	Name        string // e.g. "prod"; the name of its file, not within it
	URL         string // e.g. "https://sluice.example.com"
	Project     string // "" leaves it to each command
	Environment string // likewise
	Username    string // who is signed in; "" when nobody is
	Token       client.Token
	ExpiresAt   time.Time // of the session; zero without one

	// Device is what the server knows this machine by since the last sign-in there. It
	// stays after the session's end.
	Device client.Token
}

// file is how a context is kept.
type file struct {
	URL         string    `json:"url"`
	Project     string    `json:"project,omitempty"`
	Environment string    `json:"environment,omitempty"`
	Username    string    `json:"username,omitempty"`
	Token       string    `json:"token,omitempty"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	Device      string    `json:"device,omitempty"`
}

// ErrNotFound tells that there is no context of that name.
var ErrNotFound = errors.New("no such context")

// ErrName tells that a name cannot be that of a context.
var ErrName = errors.New("a context name must have 1 to 63 letters, digits, '.', '_' or '-', and begin with a letter or digit")

var nameFormat = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// CheckName tells whether a context can have a name.
func CheckName(name string) error {
	if !nameFormat.MatchString(name) {
		return ErrName
	}
	return nil
}

// Dir keeps contexts in a directory, which need not exist yet.
type Dir string

// Default is the person's own directory. Error: neither XDG_CONFIG_HOME nor HOME is
// set to an absolute path.
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

// Get reads a context. Errors: ErrName, ErrNotFound.
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

// Put keeps a context, in place of one of that name. Error: ErrName.
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

// Delete forgets a context. Errors: ErrName, ErrNotFound.
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

// Names lists the contexts, by name.
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
		return fmt.Errorf("clear the current context: %w", err)
	}
	return nil
}
