package usage

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/usage"
	"github.com/sluicegate/sluice/shared/usage/usagequery"
)

const (
	exportsAtOnce = 4   // of different projects and callers
	exportPage    = 500 // rollups at a time
	exportTimeout = 5 * time.Minute
	exportRetry   = 10 * time.Second
)

func (s *Service) exportUsage(ctx context.Context, in httpapi.Scope, asked api.UsageExport, to io.Writer) error {
	window, err := newWindow(asked.Window, usage.DayOf(s.now()))
	if err != nil {
		return err
	}
	leave, err := s.exports.enter("project "+in.Project.Name, "caller "+in.Caller.Username+string(in.Caller.Grant.Token))
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	counts, err := s.counted.Snapshot(ctx, s.now)
	if err != nil {
		return fmt.Errorf("export usage of %s: %w", in.Environment.Namespace, err)
	}
	x := &export{rows: csv.NewWriter(to), window: window, daily: asked.Per == api.PerDay, incomplete: counts.Incomplete()}
	x.rows.UseCRLF = true
	if err := s.exportKeys(ctx, in.Environment, counts, x); err != nil {
		return fmt.Errorf("export usage of %s: %w", in.Environment.Namespace, err)
	}
	return nil
}

// exportKeys reads the keys before it writes rows, because a query must not wait for a slow client.
func (s *Service) exportKeys(ctx context.Context, e app.Environment, counts usagequery.Snapshot, x *export) error {
	var prefixes []apikey.Prefix
	var cells [][]string
	for k, err := range s.store.EachListed(ctx, store.KeyFilter{Project: e.Project, Environment: e.Name}, "") {
		if err != nil {
			return err
		}
		prefixes, cells = append(prefixes, k.Prefix), append(cells, keyCells(k))
	}
	if err := x.header(); err != nil {
		return err
	}
	for some := range slices.Chunk(prefixes, exportPage) {
		histories, err := counts.Histories(ctx, some)
		if err != nil {
			return err
		}
		for i, h := range histories {
			if err := x.key(cells[i], h); err != nil {
				return err
			}
		}
		cells = cells[len(some):]
	}
	x.rows.Flush()
	return x.rows.Error()
}

// export writes rows of RFC 4180.
type export struct {
	rows       *csv.Writer
	window     usage.Window
	daily      bool // a row for each incomplete day and each day with requests, not for the window
	incomplete []usage.Day
}

func (x *export) header() error { return x.rows.Write(columns()) }

func columns() []string {
	return []string{"key_id", "name", "plan", "tags", "from", "to", "allowed", "rate_denied", "quota_denied", "incomplete"}
}

// keyCells returns the first cells of a key's rows.
func keyCells(k apikey.Key) []string {
	return []string{string(k.ID()), harmless(k.Name), string(k.Plan), harmless(strings.Join(k.Tags, " "))}
}

func (x *export) key(cells []string, h usage.History) error {
	if !x.daily {
		return x.row(cells, x.window, h.Total(x.window))
	}
	for day := x.window.From; day <= x.window.To; day++ {
		t := h.Totals(day)
		if t.Zero() && !slices.Contains(x.incomplete, day) {
			continue
		}
		if err := x.row(cells, usage.Window{From: day, To: day}, t); err != nil {
			return err
		}
	}
	return nil
}

func (x *export) row(cells []string, w usage.Window, t usage.Totals) error {
	lacking := slices.ContainsFunc(x.incomplete, func(d usage.Day) bool { return d >= w.From && d <= w.To })
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return x.rows.Write(slices.Concat(cells, []string{
		w.From.String(), w.To.String(), number(t.Allowed), number(t.RateDenied), number(t.QuotaDenied), strconv.FormatBool(lacking),
	}))
}

// harmless puts an apostrophe before a cell that a spreadsheet would run as a formula.
func harmless(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
