package progress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	p := New(&out, func() time.Time { return now })
	err := p.Step("firestore", func() error {
		now = now.Add(1500 * time.Millisecond)
		return nil
	})
	if want := "firestore        ready after 1.5 s\n"; err != nil || out.String() != want {
		t.Errorf("got %q, %v, want %q", out.String(), err, want)
	}
}

func TestPartsRunInOrderOfTheirNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		takes := func(d time.Duration) func(context.Context) error {
			return func(context.Context) error { time.Sleep(d); return nil }
		}
		err := New(&out, time.Now).Run(t.Context(), []Part{
			{"app", []string{"store", "cluster"}, takes(time.Second)},
			{"store", nil, takes(2 * time.Second)},
			{"cluster", nil, takes(3 * time.Second)},
		})
		want := "store            ready after 2.0 s\n" +
			"cluster          ready after 3.0 s\n" +
			"app              ready after 1.0 s, waited 3.0 s for cluster\n"
		if err != nil || out.String() != want {
			t.Errorf("got %q, %v, want %q", out.String(), err, want)
		}
	})
}

func TestFailedPartEndsTheOthers(t *testing.T) {
	t.Parallel()
	failed := errors.New("disk full")
	err := New(nil, time.Now).Run(t.Context(), []Part{
		{"app", []string{"store"}, func(context.Context) error { t.Error("app started"); return nil }},
		{"store", nil, func(context.Context) error { return failed }},
		{"cluster", nil, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }},
	})
	if !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
}

func TestUnknownNeedFails(t *testing.T) {
	t.Parallel()
	err := New(nil, time.Now).Run(t.Context(), []Part{{"app", []string{"store"}, func(context.Context) error { return nil }}})
	if err == nil || err.Error() != "app needs the unknown part store" {
		t.Errorf("got %v, want an error that names both parts", err)
	}
}

func TestStatusIsRareInALog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	p := New(&out, func() time.Time { return now })
	for i := range 31 {
		p.Status(fmt.Sprintf("%d of 31", i))
		now = now.Add(time.Second)
	}
	if want := "0 of 31\n15 of 31\n30 of 31\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestTerminalShowsStatusInPlace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := New(&out, time.Now)
	p.terminal = true
	p.Status("1 of 2")
	p.Status("2 of 2")
	p.Say("built")
	p.Say("ready")
	if want := "\r\x1b[K1 of 2\r\x1b[K2 of 2\r\x1b[Kbuilt\nready\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
