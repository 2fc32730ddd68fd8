// Package manual makes the command line's pages, a man page and a Markdown page for
// each command, from the commands' own help texts.
package manual

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Folders of the pages, below scripts/sluice/docs.
const (
	Man      = "man"      // sluice-key-create.1
	Markdown = "markdown" // sluice_key_create.md
)

// Pages gives the pages of a command and all below it, by path.
func Pages(cmd *cobra.Command) (map[string][]byte, error) {
	pages := map[string][]byte{}
	if err := add(pages, cmd); err != nil {
		return nil, err
	}
	return pages, nil
}

func add(pages map[string][]byte, cmd *cobra.Command) error {
	if cmd.HasParent() && !cmd.IsAvailableCommand() {
		return nil
	}
	for _, c := range cmd.Commands() {
		if err := add(pages, c); err != nil {
			return err
		}
	}
	cmd.DisableAutoGenTag = true // the day of its making would make every page stale
	var page bytes.Buffer
	if err := doc.GenMarkdown(cmd, &page); err != nil {
		return fmt.Errorf("write the page of %s: %w", cmd.CommandPath(), err)
	}
	pages[path.Join(Markdown, strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".md")] = bytes.Clone(page.Bytes())
	page.Reset()
	if err := doc.GenMan(cmd, header(), &page); err != nil {
		return fmt.Errorf("write the man page of %s: %w", cmd.CommandPath(), err)
	}
	pages[path.Join(Man, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1")] = bytes.Clone(page.Bytes())
	return nil
}

// header is that of all man pages. It has one date for good: the pages change with
// the commands, not with the day.
func header() *doc.GenManHeader {
	date := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	return &doc.GenManHeader{Section: "1", Date: &date, Source: "Sluice", Manual: "Sluice"}
}
