package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicegate/sluice/scripts/sluice/internal/render"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// bulk is a bulk change as requested by flags.
type bulk struct {
	a       *application
	cmd     *cobra.Command
	confirm *confirmation
	wait    *propagationFlags
	dryRun  bool

	filter   client.KeyFilter
	unused   string
	keysFrom string

	disable, enable, revoke, never bool
	plan, expires                  string
	addTags, removeTags            []string
}

const bulkLong = `Make one change to many API keys of an environment: --disable, --enable, --revoke, --plan,
--expires, --never-expires, --add-tag or --remove-tag.

--unused-for, --tag, --status, --with-plan, --app and --search select the keys. Only --status
revoked selects revoked keys. --keys-from reads IDs instead, one per line, from a file or,
with "-", from standard input.

On a terminal, the command lists the changes, asks for confirmation, and changes exactly the
listed keys. With --yes, it selects the keys once, changes them, and prints the changed keys.
--dry-run changes nothing; with -o ids, it prints the IDs of the keys that would change.

A failure does not affect the other keys; the exit status is then 1. It is safe to repeat the
command.`

func (a *application) keyBulk() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bulk", Short: "Change many API keys", Long: bulkLong,
		Example: `  sluice key bulk --unused-for 90d --disable
  sluice key bulk --tag batch --plan plan-gold --dry-run
  sluice key bulk --unused-for 90d --disable --dry-run -o ids > ids.txt
  sluice key bulk --keys-from ids.txt --disable --yes`,
	}
	b := &bulk{a: a, cmd: cmd}
	a.listsIDs(cmd)
	a.keyFilterFlags(cmd, &b.filter, &b.unused, "with-plan")
	f := cmd.Flags()
	f.StringVar(&b.keysFrom, "keys-from", "", "file with key IDs, one per line (- for standard input)")
	f.BoolVar(&b.disable, "disable", false, "disable the keys")
	f.BoolVar(&b.enable, "enable", false, "enable the keys")
	f.BoolVar(&b.revoke, "revoke", false, "revoke the keys permanently")
	f.StringVar(&b.plan, "plan", "", "new usage plan ID, e.g. plan-gold")
	f.StringVar(&b.expires, "expires", "", "new last valid day (2027-01-31) or RFC 3339 timestamp")
	f.BoolVar(&b.never, "never-expires", false, "remove the expiry")
	f.StringArrayVar(&b.addTags, "add-tag", nil, "tag to add; repeatable")
	f.StringArrayVar(&b.removeTags, "remove-tag", nil, "tag to remove; repeatable")
	f.BoolVar(&b.dryRun, "dry-run", false, "show the changes without making them")
	cmd.MarkFlagsMutuallyExclusive(changeFlags()...)
	cmd.MarkFlagsOneRequired(changeFlags()...)
	for _, flag := range filterFlags() {
		cmd.MarkFlagsMutuallyExclusive("keys-from", flag)
	}
	cmd.MarkFlagsOneRequired(append(filterFlags(), "keys-from")...)
	b.confirm, b.wait = a.confirmation(cmd, requireYes), a.propagationFlags(cmd)
	return a.command(inEnvironment, cmd, b.run)
}

func changeFlags() []string {
	return []string{"disable", "enable", "revoke", "plan", "expires", "never-expires", "add-tag", "remove-tag"}
}

func filterFlags() []string {
	return []string{"unused-for", "tag", "status", "with-plan", "app", "search"}
}

// action is a bulk change with its words.
type action struct {
	wire.KeyChange

	verb, past string // "Disable", "disabled"
	by         string // "rejected by"
}

func (b *bulk) action() (action, error) {
	status := func(s apikey.Status) *string { return new(string(s)) }
	changed := action{verb: "Change", past: "changed", by: "applied by"}
	switch f := b.cmd.Flags(); {
	case b.disable:
		return action{wire.KeyChange{Status: status(apikey.Disabled)}, "Disable", "disabled", "rejected by"}, nil
	case b.enable:
		return action{wire.KeyChange{Status: status(apikey.Active)}, "Enable", "enabled", "accepted by"}, nil
	case b.revoke:
		return action{wire.KeyChange{Revoke: true}, "Permanently revoke", "revoked", "rejected by"}, nil
	case f.Changed("plan"):
		changed.Plan = &b.plan
	case f.Changed("add-tag"):
		changed.AddTags = b.addTags
	case f.Changed("remove-tag"):
		changed.RemoveTags = b.removeTags
	case b.never:
		changed.ExpiresAt = wire.Null[string]()
	case f.Changed("expires"):
		ends, err := expiry(b.cmd, b.expires)
		changed.ExpiresAt = wire.If(true, ends)
		return changed, err
	default: // such as --disable=false
		return action{}, usage("nothing to change: pass one of --%s", strings.Join(changeFlags(), ", --"))
	}
	return changed, nil
}

func (b *bulk) run(ctx context.Context, w work) error {
	act, err := b.action()
	if err != nil {
		return err
	}
	if !b.confirm.yes && !b.dryRun && !b.a.term.Interactive {
		return b.confirm.confirmationRequired("")
	}
	selected, err := b.selected(ctx, w)
	if err != nil {
		return err
	}
	if b.dryRun {
		would, err := b.send(ctx, w, selected.ids, act, true)
		return errors.Join(err, b.show(would, selected, b.count(would, "would change", "would fail")))
	}
	if !b.confirm.yes {
		if selected.ids, err = b.ask(ctx, w, selected, act); err != nil || len(selected.ids) == 0 {
			return err
		}
	}
	did, err := b.send(ctx, b.wait.withWait(w), selected.ids, act, false)
	err = errors.Join(err, b.show(did, selected, b.count(did, act.past, "failed")))
	if err == nil {
		err = b.a.printPropagation(act.by, did.Force())
	}
	if err == nil && did.Failed > 0 {
		err = failed("keys_failed", "%d of %d keys failed.", did.Failed, len(did.Results))
	}
	return err
}

// ask shows the changes and returns the IDs of the keys that would change, or none.
func (b *bulk) ask(ctx context.Context, w work, selected selection, act action) ([]string, error) {
	would, err := b.send(ctx, w, selected.ids, act, true)
	if err != nil {
		return nil, err
	}
	counts := b.count(would, "would change", "would fail")
	ids := would.ChangedKeys()
	if len(ids) == 0 || b.a.format().ForPeople() {
		last := counts
		if len(ids) > 0 {
			last = "" // part of the question
		}
		if err := b.show(would, selected, last); err != nil || len(ids) == 0 {
			return nil, err
		}
	}
	them := "them"
	if len(ids) == 1 {
		them = "it"
	}
	return ids, b.confirm.ask(ctx, counts+" "+act.verb+" "+them+"?", "")
}

// selection is the keys to change. It has no last days of use if the IDs come from a file.
type selection struct {
	ids  []string
	seen map[string]string // last day of use, by ID
}

func (b *bulk) selected(ctx context.Context, w work) (s selection, err error) {
	if b.keysFrom != "" {
		s.ids, err = b.readIDs()
		return s, err
	}
	f := b.filter
	f.Environment, f.Search = w.environment, b.a.withoutSecret(f.Search)
	if err := setKeyFilter(&f, b.unused); err != nil {
		return s, err
	}
	if f == (client.KeyFilter{Environment: w.environment}) { // such as --tag "$UNSET"
		return s, usage("the filter is empty and would select every key: pass --%s", strings.Join(filterFlags(), ", --"))
	}
	s.seen = map[string]string{}
	for k, err := range w.Keys(ctx, w.project, f) {
		if err != nil {
			return s, err
		}
		if k.Status != string(apikey.Revoked) || f.Status != "" {
			s.ids, s.seen[k.ID] = append(s.ids, k.ID), dayOf(k.LastSeen)
		}
	}
	return s, nil
}

// maxIDs is the maximum size of a file with IDs, in bytes.
const maxIDs = 4 << 20

func (b *bulk) readIDs() (ids []string, err error) {
	in := b.a.term.In
	if b.keysFrom != "-" {
		file, err := os.Open(b.keysFrom)
		if err != nil {
			return nil, usage("--keys-from: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	limited := &io.LimitedReader{R: in, N: maxIDs + 1}
	lines := bufio.NewScanner(limited)
	known := map[string]bool{}
	for n := 1; lines.Scan(); n++ {
		if limited.N == 0 {
			return nil, usage("--keys-from: the file has more than %d bytes", maxIDs)
		}
		id := strings.TrimSpace(lines.Text())
		if _, ok := apikey.ID(id).Prefix(); !ok && id != "" { // the error must not contain the line, which can be a full key
			return nil, usage("--keys-from: line %d is not a key ID such as key-ab12cd34", n)
		}
		if id != "" && !known[id] {
			known[id] = true
			ids = append(ids, id)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read key IDs: %w", err)
	}
	return ids, nil
}

// send makes the change in calls of at most [wire.MaxBulk] keys. After an error, it returns the
// results so far.
func (b *bulk) send(ctx context.Context, w work, ids []string, act action, dryRun bool) (wire.BulkResult, error) {
	all := wire.BulkResult{Results: []wire.KeyResult{}}
	for some := range slices.Chunk(ids, wire.MaxBulk) {
		r, err := w.BulkKeys(ctx, w.project, w.environment, some, act.KeyChange, dryRun)
		if err != nil {
			return all, err
		}
		all.Changed, all.Unchanged, all.Failed = all.Changed+r.Changed, all.Unchanged+r.Unchanged, all.Failed+r.Failed
		all.Results = append(all.Results, r.Results...)
		if f := r.Force(); f != nil && (all.InForce == nil || all.InForce.Everywhere) && f.Change != "" {
			all.InForce = f
		}
	}
	return all, nil
}

// count formats, e.g., "1 key disabled, none failed.".
func (b *bulk) count(r wire.BulkResult, change, fail string) string {
	keys, failures := fmt.Sprintf("%d keys", r.Changed), number(int64(r.Failed))
	switch r.Changed {
	case 0:
		keys = "No key"
	case 1:
		keys = "1 key"
	}
	if r.Failed == 0 {
		failures = "none"
	}
	text := keys + " " + change + ", " + failures + " " + fail
	if r.Unchanged > 0 {
		text += fmt.Sprintf(", %d unchanged", r.Unchanged)
	}
	return text + "."
}

// show writes the keys that changed or failed, and a last line unless it is "".
func (b *bulk) show(r wire.BulkResult, of selection, last string) error {
	if b.a.format() == render.IDs {
		return b.a.showIDs(r.ChangedKeys())
	}
	return b.a.show(r, func(s render.Screen) error {
		columns := []render.Column{{Name: "KEY", Whole: true}, {Name: "NAME"}, {Name: "LAST SEEN", Rank: 1}, {Name: "CHANGE"}}
		if of.seen == nil {
			columns = slices.Delete(columns, 2, 3)
		}
		var err error
		if rows := resultRows(r, of); len(rows) > 0 {
			err = s.Table(columns, rows)
		}
		if err == nil && last != "" {
			err = s.Line("%s", last)
		}
		return err
	})
}

func resultRows(r wire.BulkResult, of selection) (rows [][]render.Cell) {
	for _, k := range r.Results {
		if k.Outcome == wire.KeyUnchanged {
			continue
		}
		cells := render.Plainly(k.KeyID, k.Name, of.seen[k.KeyID], resultText(k))
		if k.Outcome == wire.KeyFailed {
			cells[3].Tone = render.Bad
		}
		if of.seen == nil {
			cells = slices.Delete(cells, 2, 3)
		}
		rows = append(rows, cells)
	}
	return rows
}

// resultText formats, e.g., "active -> disabled" or "failed: key_revoked".
func resultText(r wire.KeyResult) string {
	if r.Before == nil || r.After == nil {
		return "failed: " + string(r.Code)
	}
	values := func(s wire.KeyState) []string {
		expires := expiryText(s.ExpiresAt)
		if s.ExpiresAt == nil {
			expires = "never expires"
		}
		tags := strings.Join(s.Tags, " ")
		if tags == "" {
			tags = "no tags"
		}
		return []string{s.Plan, s.Status, expires, tags}
	}
	before, after := values(*r.Before), values(*r.After)
	var changes []string
	for i := range before {
		if before[i] != after[i] {
			changes = append(changes, before[i]+" -> "+after[i])
		}
	}
	return strings.Join(changes, ", ")
}
