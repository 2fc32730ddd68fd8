package cli

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

func (a *application) screen() render.Screen {
	s := render.Screen{Out: a.term.Out, Width: a.term.Width, Colour: a.term.OutColour}
	if a.format() == render.Wide {
		s.Width = 0
	}
	return s
}

func (a *application) format() render.Format { return render.Format(a.flags.output) }

// idsListed is the annotation of commands with the format [render.IDs].
const idsListed = "ids"

// listsIDs adds the format [render.IDs] to a command.
func (a *application) listsIDs(cmd *cobra.Command) {
	cmd.Annotations = map[string]string{idsListed: "yes"}
	a.outputFlag(cmd, cmd.Flags(), append(render.Formats(), string(render.IDs)))
}

func (a *application) outputFlag(cmd *cobra.Command, of *pflag.FlagSet, formats []string) {
	of.StringVarP(&a.flags.output, "output", "o", string(render.Table), "output format: "+oneOf(formats))
	a.fixed(cmd, "output", formats...)
}

func (a *application) showIDs(ids []string) error {
	for _, id := range ids {
		if err := a.screen().Line("%s", id); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) show(value any, table func(render.Screen) error) error {
	switch {
	case a.filter != nil:
		return a.filter(value)
	case !a.format().ForPeople():
		return a.screen().Value(a.format(), value)
	}
	return table(a.screen())
}

func (a *application) showFiltered(ctx context.Context, f render.Filter, value any) error {
	for text, err := range a.screen().Filtered(ctx, f, value) {
		if err != nil {
			return failed("jq_failed", "--jq: %v", err)
		}
		if err := a.screen().Text(text); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) showFields(value any, fields []render.Field) error {
	return a.show(value, func(s render.Screen) error { return s.Fields(fields...) })
}

// done confirms a change without a response body. JSON and YAML print nothing.
func (a *application) done(format string, args ...any) error {
	if !a.format().ForPeople() {
		return nil
	}
	return a.screen().Line(format, args...)
}

func (a *application) note(format string, args ...any) {
	_, _ = fmt.Fprintln(a.term.Err, oneLine(fmt.Sprintf(format, args...)))
}

func showList[T any](a *application, noun string, list iter.Seq2[T, error], columns []render.Column, row func(T) []render.Cell) error {
	items, err := client.Collect(list)
	if err != nil {
		return err
	}
	if items == nil {
		items = []T{}
	}
	return a.show(wire.List[T]{Items: items}, func(s render.Screen) error {
		if len(items) == 0 {
			a.note("No %s.", noun)
			return nil
		}
		rows := make([][]render.Cell, 0, len(items))
		for _, item := range items {
			rows = append(rows, row(item))
		}
		return s.Table(columns, rows)
	})
}

// showFirst writes the first items of a list; limit 0 means all.
func showFirst[T any](a *application, limit int, noun string, list iter.Seq2[T, error], columns []render.Column, row func(T) []render.Cell) error {
	if limit < 0 {
		return usage("--limit must not be negative")
	}
	return showList(a, noun, first(limit, list), columns, row)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

func stampOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return stamp(*t)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func each[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

func only[T any](wanted func(T) bool, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range list {
			if (err != nil || wanted(item)) && !yield(item, err) {
				return
			}
		}
	}
}

func first[T any](limit int, list iter.Seq2[T, error]) iter.Seq2[T, error] {
	if limit == 0 {
		return list
	}
	return func(yield func(T, error) bool) {
		n := 0
		for item, err := range list {
			n++
			if !yield(item, err) || n == limit {
				return
			}
		}
	}
}
