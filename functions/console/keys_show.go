package console

import (
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// keyHead is what every page of a key begins with: see the template key_head.
type keyHead struct {
	Key  keyRow
	List string // path of the list of keys
	Part string // overview, usage
}

func (v *visit) keyHead(k keyRow, part string) keyHead {
	return keyHead{Key: k, List: v.keysPath(client.KeyFilter{Environment: v.environment}), Part: part}
}

type keyPage struct {
	Head     keyHead
	Plan     planRow   // of the key; its Path is "" when it is gone
	Previous time.Time // until when the secret before the current one is valid; zero when there is none
	Refused  string    // why the change was not made that led here
	Status   string    // what Enable is based on
}

// showKey shows a key, with the reason why a change of it was not made.
func showKey(v *visit, why refusal) error {
	k, err := v.key()
	if err != nil {
		return err
	}
	plan, err := v.planOf(k)
	if err != nil {
		return err
	}
	row := v.keyRow(k, map[string]string{plan.ID: plan.Name})
	p := keyPage{Head: v.keyHead(row, "overview"), Plan: plan, Refused: why.Message, Status: k.Status}
	if k.PreviousSecretExpiresAt != nil {
		p.Previous = *k.PreviousSecretExpiresAt
	}
	return v.show("keys_key", sheet{Status: why.Status, Title: "API key " + row.Label, Tab: tabKeys}, p)
}

// planOf reads a key's plan. A revoked key does not keep its plan from being deleted:
// then only the id is known.
func (v *visit) planOf(k wire.Key) (planRow, error) {
	plan, err := v.api.Plan(v.ctx, k.Project, k.Environment, k.Plan)
	if client.HasCode(err, "not_found") {
		return planRow{Plan: wire.Plan{ID: k.Plan, Name: k.Plan}}, nil
	}
	return v.planRow(plan), err
}
