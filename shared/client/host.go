package client

import (
	"context"
	"iter"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
)

// HostReservations lists the reserved hosts.
func (c *Client) HostReservations(ctx context.Context) iter.Seq2[wire.HostReservation, error] {
	return all(ctx, c, api.ListHostReservations, whole)
}

// HostReservationsPage reads one page.
func (c *Client) HostReservationsPage(ctx context.Context, p Page) (wire.List[wire.HostReservation], error) {
	return call(ctx, c, api.ListHostReservations, p)
}

// ReleaseHost releases a reserved host for all projects.
func (c *Client) ReleaseHost(ctx context.Context, host string) error {
	return do(ctx, c, api.ReleaseHost, api.None{}, host)
}
