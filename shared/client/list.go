package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluicegate/sluice/shared/wire"
)

// Page asks for a part of a list.
type Page struct {
	Size  int    // 1 to 500; 0 leaves it to the server
	Token string // of the page before; "" starts
}

// page reads one page of a list.
func page[T any](ctx context.Context, c *Client, p Page, query url.Values, path ...string) (wire.List[T], error) {
	q := url.Values{}
	maps.Copy(q, query)
	if p.Size != 0 {
		q.Set("page_size", strconv.Itoa(p.Size))
	}
	if p.Token != "" {
		q.Set("page_token", p.Token)
	}
	return call[wire.List[T]](ctx, c, request{method: http.MethodGet, path: path, query: q})
}

// all goes through a whole list, reading its pages as they are needed. An error
// is the last thing it gives.
func all[T any](ctx context.Context, c *Client, query url.Values, path ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var p Page
		for {
			list, err := page[T](ctx, c, p, query, path...)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range list.Items {
				if !yield(item, nil) {
					return
				}
			}
			if list.NextPageToken == "" {
				return
			}
			p.Token = list.NextPageToken
		}
	}
}

// Collect gathers a list, up to its first error.
func Collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	var items []T
	for item, err := range list {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}
