package apps

import (
	"context"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

// listReservations lists the hosts of deleted apps that are reserved for their projects.
func (s *Service) listReservations(ctx context.Context, _ httpapi.Scope, page api.Page) (list wire.List[wire.HostReservation], err error) {
	all, next, err := s.store.Reservations(ctx, store.Page(page))
	if err != nil {
		return list, err
	}
	list = wire.List[wire.HostReservation]{Items: make([]wire.HostReservation, len(all)), NextPageToken: next}
	for i, r := range all {
		list.Items[i] = wire.HostReservation(r)
	}
	return list, nil
}

func (s *Service) releaseHost(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	return api.None{}, s.store.ReleaseReservation(ctx, strings.ToLower(in.Param("host")))
}
