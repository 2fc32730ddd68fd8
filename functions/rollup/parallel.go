package rollup

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// parallel calls do for each item, at most limit at once, and waits for all of
// them. After an error it begins no more, and gives that error.
func parallel[T any](ctx context.Context, limit int, items []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(limit, 1))
	for _, item := range items {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(ctx, item)
		})
	}
	return g.Wait()
}
