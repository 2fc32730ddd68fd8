package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"cloud.google.com/go/firestore"

	"github.com/sluicegate/sluice/shared/problem"
)

// newest reads one page of a collection, the highest number of a field first. Its
// token is the last number of the page before.
func newest[D any](ctx context.Context, coll *firestore.CollectionRef, field string, page Page, number func(D) int64) (items []D, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	q := coll.OrderBy(field, firestore.Desc).Limit(page.Size + 1)
	if page.Token != "" {
		n, err := readNumber(page.Token)
		if err != nil {
			return nil, "", problem.Of(problem.InvalidPage).Because(err)
		}
		q = q.StartAfter(n)
	}
	snaps, err := q.Documents(ctx).GetAll()
	if err != nil {
		return nil, "", known(err, "document")
	}
	for _, snap := range snaps {
		if len(items) == page.Size {
			return items, writeNumber(number(items[len(items)-1])), nil
		}
		var d D
		if err := snap.DataTo(&d); err != nil {
			return nil, "", fmt.Errorf("read %s: %w", snap.Ref.ID, err)
		}
		items = append(items, d)
	}
	return items, "", nil
}

func writeNumber(n int64) string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt(nil, n, 10))
}

func readNumber(token string) (int64, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 1 || writeNumber(n) != token {
		return 0, errors.New("no number of this list")
	}
	return n, nil
}

// documents reads all that a query finds.
func documents[D any](ctx context.Context, q firestore.Query) ([]D, error) {
	snaps, err := q.Documents(ctx).GetAll()
	if err != nil {
		return nil, known(err, "document")
	}
	docs := make([]D, len(snaps))
	for i, snap := range snaps {
		if err := snap.DataTo(&docs[i]); err != nil {
			return nil, fmt.Errorf("read %s: %w", snap.Ref.ID, err)
		}
	}
	return docs, nil
}
