package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/shared/api"
)

func (a *application) usageGroup() *cobra.Command {
	return a.group("usage", "Export usage", a.usageExport())
}

const exportLong = `Export the usage of all API keys of an environment, as CSV (RFC 4180). By default, the export
covers the last 90 UTC days, with one row for each key. --per day writes a row for each key and
day with requests, and for each incomplete day. 92 days are stored.

-o writes to a file, which appears only when the export is complete. Without it, the export
goes to standard output; if the command fails, discard that output. Cells that a spreadsheet
would run as a formula get a leading apostrophe ('). Requests of the last seconds can be
missing.`

func (a *application) usageExport() *cobra.Command {
	var from, to, per, file string
	cmd := &cobra.Command{
		Use: "export", Short: "Export the usage of all keys as CSV",
		Long: exportLong,
		Example: `  sluice usage export --from 2026-03-01 --to 2026-03-31 -o march.csv
  sluice usage export --per day --from 2026-03-01 > march.csv`,
	}
	cmd.Flags().StringVar(&from, "from", "", "first UTC day, e.g. 2026-03-01")
	cmd.Flags().StringVar(&to, "to", "", "last UTC day")
	cmd.Flags().StringVar(&per, "per", "", "rows: "+oneOf(api.Pers())+" (default "+api.PerWindow+")")
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write (default standard output)")
	a.fixed(cmd, "per", api.Pers()...)
	return a.command(inEnvironment, cmd, func(ctx context.Context, w work) error {
		if a.filter != nil {
			return usage("--jq needs JSON output, and an export is CSV")
		}
		write := func(out io.Writer) error {
			sent := &counted{Writer: out}
			err := w.ExportUsage(ctx, w.project, w.environment, from, to, per, sent)
			if err != nil && sent.n > 0 && ctx.Err() == nil {
				return failed("incomplete", "The export is incomplete, discard it: %v", err)
			}
			return err
		}
		if file == "" || file == "-" {
			return write(a.term.Out)
		}
		if err := save(file, write); err != nil {
			return err
		}
		a.note("Saved to %s.", file)
		return nil
	})
}

type counted struct {
	io.Writer
	n int
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += n
	return n, err
}

// save replaces a file with the output of write, or leaves it unchanged if write fails. It writes
// directly to a device or pipe.
func save(file string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	info, err := os.Stat(file)
	if err == nil && !info.Mode().IsRegular() {
		out, err := os.OpenFile(file, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("write export: %w", err)
		}
		return errors.Join(write(out), out.Close())
	}
	part, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	defer func() { _ = os.Remove(part.Name()) }() // after an error; otherwise it has another name
	if info != nil {
		err = part.Chmod(info.Mode().Perm())
	}
	if err = errors.Join(err, write(part), part.Close()); err != nil {
		return err
	}
	if err := os.Rename(part.Name(), file); err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	return nil
}
