package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/storetest"
)

func receiptOf(ref app.Ref, at time.Time, result hook.Result) hook.Receipt {
	return hook.Receipt{ID: store.ReceiptID(at), At: at, App: ref, Result: result, Count: 1, Last: at, RequestID: "r1"}
}

func TestReceipts(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	start := noon()
	var want []hook.Receipt
	for i := range 5 {
		r := receiptOf(hello(), start.Add(time.Duration(i)*time.Second), hook.Deployed)
		r.Revision, r.Commit, r.Event, r.Delivery = int64(i+1), "9fceb02", hook.Push, fmt.Sprintf("d-%d", i)
		want = append([]hook.Receipt{r}, want...)
	}
	want[0].Result, want[0].Code, want[0].Reason = hook.Refused, "image_required", "Why."
	others := []hook.Receipt{
		receiptOf(app.Ref{Namespace: "shop-prod", Name: "hell"}, start, hook.Ponged),
		receiptOf(app.Ref{Namespace: "shop-test", Name: "hello"}, start, hook.Ponged),
	}
	check.OK(t, s.KeepReceipts(t.Context(), append(others, want...)))
	var got []hook.Receipt
	for page := (store.Page{Size: 2}); ; {
		some, next, err := s.Receipts(t.Context(), hello(), time.Time{}, page)
		check.OK(t, err)
		got = append(got, some...)
		if page.Token = next; next == "" {
			break
		}
	}
	check.Equal(t, "receipts", want, got)
	since, _, err := s.Receipts(t.Context(), hello(), want[2].At, store.Page{Size: 10})
	if diff := cmp.Diff(want[:3], since); diff != "" || err != nil {
		t.Errorf("receipts of a later app (-want +got):\n%s%v", diff, err)
	}
	n, err := s.DeleteReceipts(t.Context(), want[2].At, 3)
	more, err2 := s.DeleteReceipts(t.Context(), want[2].At, 100)
	if err != nil || err2 != nil || n != 3 || more != 1 {
		t.Errorf("got %d and %d deleted, %v, %v, want 3 and 1", n, more, err, err2)
	}
	if left, _, err := s.Receipts(t.Context(), hello(), time.Time{}, store.Page{Size: 10}); err != nil || len(left) != 3 {
		t.Errorf("got %d left, %v, want 3", len(left), err)
	}
}

func TestReceiptsAreReplaced(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	r := receiptOf(hello(), noon(), hook.Unproven)
	for range 3 {
		r.Count++
		check.OK(t, s.KeepReceipts(t.Context(), []hook.Receipt{r}))
	}
	got, _, err := s.Receipts(t.Context(), hello(), time.Time{}, store.Page{Size: 10})
	if diff := cmp.Diff([]hook.Receipt{r}, got); diff != "" || err != nil {
		t.Errorf("receipts (-want +got):\n%s%v", diff, err)
	}
	many := make([]hook.Receipt, 450)
	for i := range many {
		many[i] = receiptOf(app.Ref{Namespace: "shop-prod", Name: "many"}, noon(), hook.Ponged)
	}
	check.OK(t, s.KeepReceipts(t.Context(), many))
	if got, _, err := s.Receipts(t.Context(), many[0].App, time.Time{}, store.Page{Size: 500}); err != nil || len(got) != len(many) {
		t.Errorf("got %d of %d receipts, %v", len(got), len(many), err)
	}
}

func TestHostileReceipt(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	r := receiptOf(hello(), noon(), hook.Ponged)
	r.Delivery, r.Event = "\xff\x00\r\n"+strings.Repeat("€", 1<<20), "\u202e<b>"
	check.OK(t, s.KeepReceipts(t.Context(), []hook.Receipt{r}))
	got, _, err := s.Receipts(t.Context(), hello(), time.Time{}, store.Page{Size: 10})
	if diff := cmp.Diff([]hook.Receipt{r.Bounded()}, got); diff != "" || err != nil {
		t.Errorf("receipts (-want +got):\n%s%v", diff, err)
	}
}
