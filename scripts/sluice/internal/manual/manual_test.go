// Package manual_test generates a man page and a Markdown page for each command, and checks that
// the stored pages are current.
package manual_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/sluicegate/sluice/scripts/sluice/internal/cli"
	"github.com/sluicegate/sluice/tests/check"
)

var update = flag.Bool("update", false, "write the pages, like make docs")

const folder = "../../docs"

func TestPages(t *testing.T) {
	t.Parallel()
	pages := map[string][]byte{}
	check.OK(t, add(pages, cli.Root()))
	if *update {
		write(t, pages)
	}
	for path, want := range pages {
		got, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			t.Errorf("%v; run: make docs", err)
			continue
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is stale; run: make docs (-want +got)\n%s", path, diff)
		}
	}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if rel, _ := filepath.Rel(folder, path); pages[filepath.ToSlash(rel)] == nil {
			t.Errorf("%s belongs to no command; run: make docs", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, pages map[string][]byte) {
	t.Helper()
	check.OK(t, os.RemoveAll(folder))
	for path, page := range pages {
		path = filepath.Join(folder, path)
		check.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check.OK(t, os.WriteFile(path, page, 0o644))
	}
}

// Folders of the pages, below scripts/sluice/docs.
const (
	man      = "man"      // sluice-key-create.1
	markdown = "markdown" // sluice_key_create.md
)

func add(pages map[string][]byte, cmd *cobra.Command) error {
	if cmd.HasParent() && !cmd.IsAvailableCommand() {
		return nil
	}
	for _, c := range cmd.Commands() {
		if err := add(pages, c); err != nil {
			return err
		}
	}
	cmd.DisableAutoGenTag = true // pages must not contain the current date
	var page bytes.Buffer
	if err := doc.GenMarkdown(cmd, &page); err != nil {
		return fmt.Errorf("write the page of %s: %w", cmd.CommandPath(), err)
	}
	pages[path.Join(markdown, strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".md")] = bytes.Clone(page.Bytes())
	page.Reset()
	if err := doc.GenMan(cmd, header(), &page); err != nil {
		return fmt.Errorf("write the man page of %s: %w", cmd.CommandPath(), err)
	}
	pages[path.Join(man, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")] = bytes.Clone(page.Bytes())
	return nil
}

func header() *doc.GenManHeader {
	date := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	return &doc.GenManHeader{Section: "1", Date: &date, Source: "Sluice", Manual: "Sluice"}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			walk(c)
		}
		name := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > 50 {
			t.Errorf("%s: short help %q: want 1 to 50 characters without a period", name, cmd.Short)
		}
		if !cmd.HasSubCommands() && !strings.Contains(cmd.Example, name) {
			t.Errorf("%s: got example %q, want one with the command", name, cmd.Example)
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > 95 {
				t.Errorf("%s: line over 95 characters: %s", name, line)
			}
		}
		var help bytes.Buffer
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil || !strings.Contains(help.String(), "Usage:") {
			t.Errorf("%s: got help %q, %v", name, help.String(), err)
		}
	}
	walk(cli.Root())
}
