package client

import (
	"context"
	"iter"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
)

// HostReservations lists the hosts that are reserved for the projects of apps that gave them up;
// for admins.
func (c *Client) HostReservations(ctx context.Context) iter.Seq2[wire.HostReservation, error] {
	return all(ctx, c, api.ListHostReservations, whole)
}

// HostReservationsPage reads one page of them.
func (c *Client) HostReservationsPage(ctx context.Context, p Page) (wire.List[wire.HostReservation], error) {
	return call(ctx, c, api.ListHostReservations, p)
}

// ReleaseHost lets any project have a reserved host; for admins.
func (c *Client) ReleaseHost(ctx context.Context, host string) error {
	return do(ctx, c, api.ReleaseHost, api.None{}, host)
}
