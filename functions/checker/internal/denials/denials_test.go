package denials

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

func TestFind(t *testing.T) {
	t.Parallel()
	b := New(1, slog.New(slog.DiscardHandler))
	for i := range Capacity + 10 {
		b.Record(Denial{RequestID: strconv.Itoa(i)})
	}
	all := b.Find("", 2*Capacity)
	if len(all) != Capacity || all[0].RequestID != strconv.Itoa(Capacity+9) || all[Capacity-1].RequestID != "10" {
		t.Errorf("denials: got %d, from %s to %s", len(all), all[0].RequestID, all[len(all)-1].RequestID)
	}
	if got := b.Find("9", 1); len(got) != 0 {
		t.Errorf("overwritten denial: got %+v, want none", got)
	}
	if got := b.Find("77", 1); len(got) != 1 {
		t.Errorf("denial 77: got %+v, want one", got)
	}
	if got := b.Find("", 3); len(got) != 3 {
		t.Errorf("denials: got %d, want 3", len(got))
	}
}

func TestConcurrentNotes(t *testing.T) {
	t.Parallel()
	b := New(1000, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	var group, reading sync.WaitGroup
	reading.Go(func() { b.Run(ctx) })
	for range 8 {
		group.Go(func() {
			for range Capacity {
				b.Record(Denial{RequestID: "x"})
				_ = b.Find("x", 1)
			}
		})
	}
	group.Wait()
	stop()
	reading.Wait()
	if got := len(b.Find("x", 2*Capacity)); got != Capacity {
		t.Errorf("denials: got %d, want %d", got, Capacity)
	}
}

func TestFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const flood, perSecond, seconds = 100_000, 5, 60
		var out bytes.Buffer
		b := New(perSecond, slog.New(slog.NewTextHandler(&out, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			b.Run(ctx)
			close(done)
		}()
		for range flood {
			b.Record(Denial{RequestID: "r"})
		}
		time.Sleep(seconds * time.Second) // synthetic time
		b.Record(Denial{RequestID: "last"})
		synctest.Wait()
		time.Sleep(time.Second)
		stop()
		<-done
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) > queueSize+3 {
			t.Errorf("log lines: got %d in %d s, want at most %d", len(lines), seconds, queueSize+3)
		}
		left := 0
		for _, l := range lines {
			if _, n, ok := strings.Cut(l, "not_logged="); ok {
				count, err := strconv.Atoi(strings.Fields(n)[0])
				check.OK(t, err)
				left += count
			}
		}
		if len(lines)+left != flood+1 || !strings.Contains(lines[len(lines)-1], "request_id=last") {
			t.Errorf("got %d lines and %d omitted of %d denials; last line: %s", len(lines), left, flood+1, lines[len(lines)-1])
		}
	})
}

func TestServe(t *testing.T) {
	t.Parallel()
	b := New(1, slog.New(slog.DiscardHandler))
	b.Record(Denial{RequestID: "r1", Reason: "revoked"})
	b.Record(Denial{RequestID: "r2", Reason: "expired"})
	tests := []struct {
		name, query string
		status      int
		want, not   string
	}{
		{"all", "", 200, `"expired"`, "\x00"},
		{"one", "?request_id=r1", 200, `"revoked"`, `"expired"`},
		{"none", "?request_id=r3", 200, `{"items":[]}`, `"expired"`},
		{"a limit", "?limit=1", 200, `"expired"`, `"revoked"`},
		{"limit zero", "?limit=0", 400, `"invalid_parameter"`, "\x00"},
		{"invalid limit", "?limit=x", 400, `"invalid_parameter"`, "\x00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			b.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/denials"+tt.query, nil))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || strings.Contains(w.Body.String(), tt.not) {
				t.Errorf("got %d %s, want %d", w.Code, w.Body, tt.status)
			}
		})
	}
}
