package console

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const atOnce = 500 // writes in one commit

// crowdSize returns the number of keys and apps with which pages must be fast.
func crowdSize() (keys, apps int) { return long.Pick(300, 1000), long.Pick(60, 200) }

// crowd fills a site with keys and apps. Most of them are copies of documents that the API created.
// They are deleted at the end, because functions process every app.
func (s site) crowd() {
	s.T.Helper()
	c := stacktest.Store(s.T, world)
	keys, apps := crowdSize()
	key := s.named(s.starter(), "Checkout team")
	s.App("hello")
	namespace := s.Project + "-" + s.Env
	s.copies(c, c.Doc("keys/"+key.ID), keys-1, func(i int, d map[string]any) string {
		prefix := fmt.Sprintf("%s%05d", key.Prefix[:3], i)
		d["prefix"], d["name"], d["updated_at"] = prefix, fmt.Sprintf("Team %d", i), time.Now()
		if i%3 == 0 {
			d["expires_at"] = time.Now().Add(time.Duration(i) * time.Hour)
		}
		return "key-" + prefix
	})
	s.copies(c, c.Doc("apps/"+namespace+".hello"), apps-1, func(i int, d map[string]any) string {
		name := fmt.Sprintf("app-%03d", i)
		d["name"], d["host"] = name, name+"."+namespace+".localhost"
		return namespace + "." + name
	})
}

// copies creates n copies of a document. change modifies a copy and returns its ID.
func (s site) copies(c *firestore.Client, of *firestore.DocumentRef, n int, change func(i int, d map[string]any) string) {
	s.T.Helper()
	snap, err := of.Get(s.T.Context())
	must(s.T, err)
	made := map[*firestore.DocumentRef]map[string]any{}
	for i := range n {
		d := maps.Clone(snap.Data())
		made[of.Parent.Doc(change(i, d))] = d
	}
	s.T.Cleanup(func() {
		inCommits(context.WithoutCancel(s.T.Context()), s.T, c, made, func(tx *firestore.Transaction, ref *firestore.DocumentRef) error {
			return tx.Delete(ref)
		})
	})
	inCommits(s.T.Context(), s.T, c, made, func(tx *firestore.Transaction, ref *firestore.DocumentRef) error {
		return tx.Set(ref, made[ref])
	})
}

// inCommits writes documents in large batches, because the emulator sends the whole collection to
// each listener after every commit.
func inCommits(ctx context.Context, t testing.TB, c *firestore.Client, docs map[*firestore.DocumentRef]map[string]any, write func(*firestore.Transaction, *firestore.DocumentRef) error) {
	t.Helper()
	for refs := range slices.Chunk(slices.Collect(maps.Keys(docs)), atOnce) {
		err := c.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			for _, ref := range refs {
				if err := write(tx, ref); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
