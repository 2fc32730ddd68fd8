package apps

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

func (s *Service) listTrusts(_ context.Context, in httpapi.Scope, _ api.None) (wire.List[wire.Trust], error) {
	list := wire.List[wire.Trust]{Items: make([]wire.Trust, len(in.App.Trusts))}
	for i, t := range in.App.Trusts {
		list.Items[i] = wireTrust(t)
	}
	return list, nil
}

func (s *Service) getTrust(_ context.Context, in httpapi.Scope, _ api.None) (wire.Trust, error) {
	i := slices.IndexFunc(in.App.Trusts, func(t app.Trust) bool { return t.ID == in.Param("trust_id") })
	if i < 0 {
		return wire.Trust{}, problem.New(problem.NotFound, "The trust does not exist.")
	}
	return wireTrust(in.App.Trusts[i]), nil
}

// addTrust allows pipelines to deploy an app. For missing claims, it adds the provider's default
// restrictions.
func (s *Service) addTrust(ctx context.Context, in httpapi.Scope, body wire.AddTrust) (wire.Trust, error) {
	provider := cmp.Or(app.Provider(body.Provider), app.Other)
	t := app.Trust{
		ID: "trust-" + strings.ToLower(rand.Text()[:10]), Provider: provider, Issuer: cmp.Or(body.Issuer, provider.Issuer()),
		Audience: cmp.Or(body.Audience, s.webhookURL(in)), Claims: body.Claims,
		CreatedAt: s.storeTime(), CreatedBy: in.Caller.Username,
	}
	if err := s.checkIssuer(t.Issuer); err != nil {
		return wire.Trust{}, err
	}
	t = t.Restricted()
	if err := t.Check(); err != nil {
		return wire.Trust{}, err
	}
	return wireTrust(t), s.store.AddTrust(context.WithoutCancel(ctx), in.App.Ref(), t)
}

func (s *Service) checkIssuer(issuer string) error {
	var wrong *problem.Error
	switch {
	case issuer == "":
		wrong = problem.New(problem.MissingField, "issuer is required, because this provider has no public issuer.")
	case len(s.cfg.Issuers) == 0:
		wrong = problem.New(problem.InvalidTrust, "This installation accepts no issuers. An operator must set OIDC_ISSUERS.")
	case !slices.Contains(s.cfg.Issuers, issuer):
		wrong = problem.New(problem.InvalidTrust, "This installation accepts only these issuers: %s.", strings.Join(s.cfg.Issuers, ", "))
	default:
		return nil
	}
	wrong.Field = "issuer"
	return wrong
}

func (s *Service) removeTrust(ctx context.Context, in httpapi.Scope, _ api.None) (api.None, error) {
	return api.None{}, s.store.RemoveTrust(context.WithoutCancel(ctx), in.App.Ref(), in.Param("trust_id"))
}

func wireTrust(t app.Trust) wire.Trust {
	return wire.Trust{
		ID: t.ID, Provider: string(t.Provider), Issuer: t.Issuer, Audience: t.Audience, Claims: t.Claims, Open: t.Open(),
		CreatedAt: t.CreatedAt, CreatedBy: t.CreatedBy,
	}
}
