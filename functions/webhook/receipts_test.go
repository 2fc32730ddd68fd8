package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
)

// receipts writes the due receipts and returns the app's receipts, newest first.
func (w *world) receipts(address string) []hook.Receipt {
	w.Helper()
	w.service.receipts.writeDue(w.Context(), false)
	all, _, err := w.store.Receipts(w.Context(), refOf(address), time.Time{}, store.Page{Size: 500})
	check.OK(w, err)
	return all
}

func TestReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	push := pushOf("refs/heads/main", commit, false)
	tests := []struct {
		name string
		call *call
		want hook.Receipt
	}{
		{"an image", w.ci(hello, `{"image":"`+image2+`","commit":"9FCEB02"}`), hook.Receipt{Result: hook.Deployed, Revision: 2, Commit: "9fceb02"}},
		{
			"a commit", w.ci(site, `{"commit":"`+commit+`"}`).with("Idempotency-Key", "job-7"),
			hook.Receipt{Result: hook.Building, Build: 1, Commit: commit, Delivery: "job-7"},
		},
		{
			"the same again", w.ci(site, `{"commit":"`+commit+`"}`).with("Idempotency-Key", "job-7"),
			hook.Receipt{Result: hook.Replayed, Build: 1, Commit: commit, Delivery: "job-7"},
		},
		{
			"with another body", w.ci(site, `{}`).with("Idempotency-Key", "job-7"),
			hook.Receipt{Result: hook.Refused, Code: "conflict", Delivery: "job-7"},
		},
		{
			"a push", w.provider(site, "push", push).with("X-GitHub-Delivery", "72d3162e"),
			hook.Receipt{Result: hook.Building, Build: 2, Commit: commit, Event: hook.Push, Delivery: "72d3162e"},
		},
		{
			"a push elsewhere", w.provider(site, "push", pushOf("refs/heads/dev", commit, false)),
			hook.Receipt{Result: hook.Ignored, Event: hook.Push, Reason: "The push is not to the git source's branch."},
		},
		{"a ping", w.provider(site, "ping", `{}`), hook.Receipt{Result: hook.Ponged, Event: hook.Ping}},
		{"no image", w.ci(hello, `{}`), hook.Receipt{Result: hook.Refused, Code: "image_required"}},
		{"no JSON", w.ci(hello, `{`), hook.Receipt{Result: hook.Refused, Code: "malformed_json"}},
		{"too large", w.ci(hello, strings.Repeat(" ", maxBody+1)), hook.Receipt{Result: hook.Refused, Code: "body_too_large"}},
	}
	for i, tt := range tests {
		id := fmt.Sprintf("call-%d", i)
		w.clock.Advance(time.Second)
		got := tt.call
		got.request = id
		got.send()
		tt.want.App, tt.want.At, tt.want.Last, tt.want.Count, tt.want.RequestID = refOf(got.address), w.clock.Now(), w.clock.Now(), 1, id
		if diff := cmp.Diff(tt.want, w.receipts(got.address)[0], cmpopts.IgnoreFields(hook.Receipt{}, "ID")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	w.tokens.down = true
	w.clock.Advance(time.Second)
	w.ci(hello, `{"image":"`+image2+`"}`).refused(http.StatusServiceUnavailable, "unavailable")
	if got := w.receipts(hello)[0]; got.Result != hook.Broken || got.Code != "unavailable" {
		t.Errorf("with the API server down: got %+v", got)
	}
}

func unprovenCalls(w *world, address string) []*call {
	made := w.call(address, `{}`).with(hook.TokenHeader, strings.Repeat("A", 43))
	return []*call{
		w.call(address, `{}`),
		made,
		w.call(address, `{}`).with(hook.TokenHeader, "x"),
		w.call(address, `{}`).with(hook.SignatureHeader, sign("another", `{}`)),
		w.call(address, strings.Repeat(" ", maxBody+1)).with(hook.SignatureHeader, sign("another", "")), // 413
		w.ci(address, `{}`).with(hook.SignatureHeader, sign("another", `{}`)),
	}
}

func TestUnprovenShareAReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := w.clock.Now()
	kinds := unprovenCalls(w, hello)
	rounds := 0
	for ; rounds < 20; rounds++ { // later rounds get 429
		for _, c := range kinds {
			c.sentFrom("203.0.113.9").send()
		}
		for _, c := range append(unprovenCalls(w, quiet), w.call("made-up/hello", `{}`), w.call("%2e%2e/x", `{}`)) {
			c.sentFrom("203.0.113.9").send()
		}
		w.receipts(hello)
		w.clock.Advance(time.Second)
	}
	got := w.receipts(hello)
	if len(got) != 1 || got[0].Count != len(kinds) || !got[0].At.Equal(start) || got[0].Code == "" || got[0].Event != "" || got[0].Delivery != "" {
		t.Fatalf("within a minute: %+v", got)
	}
	w.clock.Advance(time.Minute)
	last := w.clock.Now().Add(-time.Minute - time.Second)
	if got = w.receipts(hello); len(got) != 1 || got[0].Count != rounds*len(kinds) || !got[0].Last.Equal(last) || got[0].Result != hook.Unproven {
		t.Fatalf("after a minute: %+v, want %d calls until %s", got, rounds*len(kinds), last)
	}
	w.clock.Advance(time.Hour)
	kinds[0].send()
	if got = w.receipts(hello); len(got) != 2 || got[0].Count != 1 || got[1].Count != rounds*len(kinds) {
		t.Errorf("after an hour: %+v", got)
	}
	if n := len(w.receipts(quiet)) + len(w.receipts("made-up/hello")); n != 0 {
		t.Errorf("receipts of apps without a webhook: got %d, want 0", n)
	}
	w.service.receipts.mu.Lock()
	defer w.service.receipts.mu.Unlock()
	if n := len(w.service.receipts.gathered); n > 2 {
		t.Errorf("receipts in memory: got %d", n)
	}
}

func TestThrottledShareAReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 75 {
		w.provider(hello, "ping", `{}`).send()
	}
	got := w.receipts(hello)
	byResult := map[hook.Result]int{}
	for _, r := range got {
		byResult[r.Result] += r.Count
	}
	want := map[hook.Result]int{hook.Ponged: 60, hook.Throttled: 15}
	if diff := cmp.Diff(want, byResult); diff != "" || len(got) != 61 {
		t.Errorf("%d receipts, calls (-want +got):\n%s", len(got), diff)
	}
}

func TestHostileReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hostile := "<script>\r\n\x1b[31m\u202e\x00" + strings.Repeat("é", 5000)
	w.provider(hello, "ping", `{}`).with("X-GitHub-Event", "x"+hostile).with("X-GitHub-Delivery", hostile).send()
	got := w.receipts(hello)
	if len(got) != 1 {
		t.Fatalf("receipts: got %+v", got)
	}
	for _, text := range []string{string(got[0].Event), got[0].Delivery} {
		if len(text) > 128 || strings.Trim(text, " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") != "" {
			t.Errorf("stored text: got %q", text)
		}
	}
	everything := fmt.Sprintf("%#v", got)
	for _, secret := range []string{w.token(hello), sign(w.token(hello), `{}`)} {
		if strings.Contains(everything, secret) {
			t.Errorf("a secret is stored: %s", everything)
		}
	}
}

type away struct {
	Apps

	asked atomic.Int64
	hangs bool
}

func (a *away) KeepReceipts(ctx context.Context, _ []hook.Receipt) error {
	a.asked.Add(1)
	if a.hangs {
		<-ctx.Done()
	}
	return errors.New("away")
}

func TestReceiptsCannotBeKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := &away{Apps: w.store, hangs: true}
	w.service.receipts.store = a
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	start := time.Now()
	go func() { ended <- w.service.Run(ctx) }()
	for i := range 2 * queued {
		if i%50 == 0 {
			w.clock.Advance(time.Minute)
		}
		if got := w.provider(hello, "ping", `{}`).send(); got.Status != http.StatusOK {
			t.Fatalf("call %d: %d %s", i, got.Status, string(got.Body))
		}
	}
	w.service.receipts.mu.Lock()
	held := len(w.service.receipts.queue)
	w.service.receipts.mu.Unlock()
	if held == 0 || held > queued {
		t.Errorf("queued receipts: got %d, want 1 to %d", held, queued)
	}
	if most := 2 + int64(time.Since(start)/keepTimeout); a.asked.Load() > most {
		t.Errorf("writes: got %d, want at most %d (one at a time, each until its timeout)", a.asked.Load(), most)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if text := w.log.String(); !strings.Contains(text, "write receipts failed") {
		t.Errorf("the log lacks the failed write: %s", text)
	}
}

func TestLastReceiptsAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.call(hello, `{}`).send()
	w.receipts(hello)
	w.call(hello, `{}`).send() // not due for a minute
	w.provider(hello, "ping", `{}`).send()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	check.OK(w, w.service.Run(ctx))
	all, _, err := w.store.Receipts(t.Context(), refOf(hello), time.Time{}, store.Page{Size: 10})
	if err != nil || len(all) != 2 || all[0].Count+all[1].Count != 3 {
		t.Errorf("receipts: got %+v, %v", all, err)
	}
}
