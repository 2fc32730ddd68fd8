package view

import (
	"maps"
	"slices"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/shared/plan"
)

// symbolTable numbers namespaces and app names, so that entries hold numbers.
// Symbols are never taken out: there are as many as apps and environments.
type symbolTable struct {
	texts []string          // by number
	ids   map[string]uint32 // the other way round
	own   bool              // both were cloned by this edit; until then they are another view's too
}

func (t symbolTable) text(id uint32) string {
	if int(id) >= len(t.texts) {
		return ""
	}
	return t.texts[id]
}

// edit gives a table that can take new symbols without t noticing.
func (t symbolTable) edit() symbolTable {
	t.own = false
	return t
}

func (t *symbolTable) id(text string) uint32 {
	if id, ok := t.ids[text]; ok {
		return id
	}
	if !t.own {
		t.texts, t.ids, t.own = slices.Clone(t.texts), cloned(t.ids), true
	}
	id := uint32(len(t.texts))
	t.texts = append(t.texts, text)
	t.ids[text] = id
	return id
}

// planSlot is a plan's place: given out when a key or the plan itself first
// names it, whichever the listeners hear first.
type planSlot struct {
	limits  Limits
	defined bool
}

// planTable holds plans by place.
type planTable struct {
	slots   []planSlot
	places  map[string]uint32 // by planName
	defined int
	own     bool // slots and places were cloned by this edit
}

func planName(namespace string, id plan.ID) string { return namespace + "." + string(id) }

func (t planTable) at(place uint32) planSlot {
	if int(place) >= len(t.slots) {
		return planSlot{}
	}
	return t.slots[place]
}

func (t planTable) edit() planTable {
	t.own = false
	return t
}

func (t *planTable) clone() {
	if !t.own {
		t.slots, t.places, t.own = slices.Clone(t.slots), cloned(t.places), true
	}
}

func (t *planTable) place(name string) uint32 {
	if at, ok := t.places[name]; ok {
		return at
	}
	t.clone()
	at := uint32(len(t.slots))
	t.slots = append(t.slots, planSlot{})
	t.places[name] = at
	return at
}

func (t *planTable) set(name string, s planSlot) {
	at := t.place(name)
	t.clone()
	if t.slots[at].defined {
		t.defined--
	}
	if s.defined {
		t.defined++
	}
	t.slots[at] = s
}

// PlanChange is a plan as it now is, or that it is gone.
type PlanChange struct {
	Document string // the document's id, "{namespace}.{plan id}"
	Gone     bool
	Limits   plan.Limits // unless Gone
}

// WithPlans gives v with changes applied in their order. With reset the changes
// are all plans there are.
func (v *View) WithPlans(reset bool, changes []PlanChange) *View {
	next := *v
	next.plans = v.plans.edit()
	if reset {
		next.plans.clone()
		clear(next.plans.slots)
		next.plans.defined = 0
	}
	for _, c := range changes {
		if c.Gone {
			next.plans.set(c.Document, planSlot{})
			continue
		}
		next.plans.set(c.Document, planSlot{defined: true, limits: Limits{
			Bucket: bucket.ShapeOf(c.Limits), Quota: c.Limits.Quota, Period: c.Limits.Period,
		}})
	}
	return &next
}

func cloned(m map[string]uint32) map[string]uint32 {
	if m == nil {
		return map[string]uint32{}
	}
	return maps.Clone(m)
}
