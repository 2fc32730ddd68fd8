package store

import (
	"context"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/store/internal/fire"
)

// receiptDoc is a document of receipts, with an ID like that of a [recordDoc].
type receiptDoc struct {
	hook.Receipt

	Namespace string    `firestore:"namespace"`
	App       string    `firestore:"app"`
	ExpiresAt time.Time `firestore:"expires_at"`
}

func receiptToDoc(r hook.Receipt) receiptDoc {
	return receiptDoc{Receipt: r.Bounded(), Namespace: r.App.Namespace, App: r.App.Name, ExpiresAt: r.At.Add(hook.ReceiptRetention)}
}

func readReceipt(doc fire.Doc) (hook.Receipt, error) {
	d, err := shape[receiptDoc](doc)
	d.ID, d.Receipt.App = doc.ID, app.Ref{Namespace: d.Namespace, Name: d.App}
	return d.Receipt, err
}

// ReceiptID returns a new ID for the receipt of a call.
func ReceiptID(at time.Time) string { return drawID(at) }

// KeepReceipts writes receipts, and replaces those with the same ID.
func (s *Store) KeepReceipts(ctx context.Context, receipts []hook.Receipt) error {
	for some := range slices.Chunk(receipts, maxWrites) {
		err := s.transact(ctx, "store receipts", func(_ context.Context, _ fire.Tx, b *batch) error {
			for _, r := range some {
				b.Set(s.receipts().Doc(r.ID), receiptToDoc(r))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Receipts lists the receipts of an app's webhook, newest first. since is the app's creation time,
// which excludes earlier apps with the same name.
func (s *Store) Receipts(ctx context.Context, ref app.Ref, since time.Time, page Page) ([]hook.Receipt, string, error) {
	query := s.receipts().Where("namespace", "==", ref.Namespace).Where("app", "==", ref.Name)
	return list(ctx, between(query, since, time.Time{}), page, readReceipt)
}

func (s *Store) receiptsOf(ctx context.Context, namespace string, results []hook.Result, from, to time.Time, page Page) ([]hook.Receipt, string, error) {
	query := s.receipts().Where("namespace", "==", namespace).Where("result", "in", results)
	return list(ctx, between(query, from, to), page, readReceipt)
}

// DeleteReceipts deletes receipts from before the given time.
func (s *Store) DeleteReceipts(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.prune(ctx, "receipts", s.receipts().Where(fire.ID, ">", timeID(before)+"~"), limit)
}
