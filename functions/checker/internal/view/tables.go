package view

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/shared/plan"
)

// symbolTable numbers the names of apps. Symbols are never removed.
type symbolTable struct {
	texts []string
	ids   map[string]uint32
	own   bool // cloned for this edit, not shared with another view
}

func (t symbolTable) text(id uint32) string {
	if int(id) >= len(t.texts) {
		return ""
	}
	return t.texts[id]
}

// edit returns a table that can be changed without changing t.
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

// planRow is a plan, defined or only named by a key.
type planRow struct {
	namespace string
	limits    Limits
	defined   bool
}

//nolint:gochecknoglobals // a constant for an unknown index
var noPlan planRow

// Plan contains the properties of a plan that the holder of a key may see. Decisions do not need
// them.
type Plan struct {
	ID          plan.ID
	Name        string
	Environment string // "" until the plan has a key
	Rate        float64
	Burst       int64
	Policy      plan.Policy
}

// planTable stores plans by index. An index belongs to a plan while it is defined or a key
// refers to it.
type planTable struct {
	rows          []planRow
	info          []Plan            // same length as rows
	indices       map[string]uint32 // by planName
	free          []uint32
	defined       int
	undefinedKept int

	ownRows, ownPlaces bool // as in symbolTable
}

func planName(namespace string, id plan.ID) string { return namespace + "." + string(id) }

func namespaceOf(name string) string {
	namespace, _, _ := strings.Cut(name, ".")
	return namespace
}

func (t *planTable) at(i uint32) *planRow {
	if int(i) >= len(t.rows) {
		return &noPlan
	}
	return &t.rows[i]
}

func (t planTable) edit() planTable {
	t.ownRows, t.ownPlaces = false, false
	return t
}

func (t *planTable) own() {
	if !t.ownRows {
		t.rows, t.info, t.ownRows = slices.Clone(t.rows), slices.Clone(t.info), true
	}
}

func (t *planTable) index(name string) uint32 {
	if at, ok := t.indices[name]; ok {
		return at
	}
	t.own()
	if !t.ownPlaces {
		t.indices, t.ownPlaces = cloned(t.indices), true
	}
	at := uint32(len(t.rows))
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.rows, t.info = append(t.rows, planRow{}), append(t.info, Plan{})
	}
	namespace, id, _ := strings.Cut(name, ".")
	t.rows[at], t.info[at] = planRow{namespace: namespace}, Plan{ID: plan.ID(id)}
	t.indices[name] = at
	return at
}

// indexOf also records the key's environment, which the document of a plan does not contain.
func (t *planTable) indexOf(name, environment string) uint32 {
	at := t.index(name)
	if t.info[at].Environment != environment {
		t.own()
		t.info[at].Environment = environment
	}
	return at
}

func (t *planTable) define(c PlanChange) {
	s, info := t.row(c.Document)
	if !s.defined {
		t.defined++
	}
	shape := bucket.ShapeOf(c.Limits)
	s.limits, s.defined = Limits{Bucket: shape, Quota: c.Limits.Quota, Hard: c.Limits.Hard, Period: c.Limits.Period, Unsaid: shape.MaxWithin(storeDelay)}, true
	info.Name, info.Rate, info.Burst, info.Policy = c.Name, c.Limits.Rate, c.Limits.Burst, plan.PolicyOf(c.Limits)
}

func (t *planTable) forget(name string) {
	s, info := t.row(name)
	if s.defined {
		t.defined--
	}
	s.limits, s.defined = Limits{}, false
	*info = Plan{ID: info.ID, Environment: info.Environment}
}

func (t *planTable) row(name string) (*planRow, *Plan) {
	at := t.index(name)
	t.own()
	return &t.rows[at], &t.info[at]
}

// PlanChange is a changed or deleted plan.
type PlanChange struct {
	Document string // "{namespace}.{plan ID}"
	Gone     bool
	Name     string
	Limits   plan.Limits
}

// storeDelay is the time until a replica's counts arrive through the store: two flush intervals and
// the delay of the store.
const storeDelay = 5 * time.Second

// WithPlans returns v with the changes applied in their order. If reset is true, the changes are
// all plans.
func (v *View) WithPlans(reset bool, changes []PlanChange) *View {
	next := *v
	next.plans = v.plans.edit()
	if reset {
		for name := range v.plans.indices {
			next.plans.forget(name)
		}
	}
	for _, c := range changes {
		if c.Gone {
			next.plans.forget(c.Document)
			continue
		}
		next.plans.define(c)
	}
	next.sweepPlans()
	return &next
}

const minSweep = 1000

// sweepPlans frees the indices of undefined plans that no key refers to. It reads all keys, so
// it runs only when the number of undefined plans has doubled.
func (v *View) sweepPlans() {
	t := &v.plans
	if len(t.indices)-t.defined < max(minSweep, 2*t.undefinedKept) {
		return
	}
	used := make([]bool, len(t.rows))
	for _, s := range v.shards {
		for i := range s.keys() {
			used[s.entries[i].plan] = true
		}
	}
	t.own()
	indices, free := make(map[string]uint32, t.defined), slices.Clone(t.free)
	for name, at := range t.indices {
		if used[at] || t.rows[at].defined {
			indices[name] = at
			continue
		}
		t.rows[at], t.info[at] = planRow{}, Plan{}
		free = append(free, at)
	}
	t.indices, t.free, t.ownPlaces, t.undefinedKept = indices, free, true, len(indices)-t.defined
}

func cloned(m map[string]uint32) map[string]uint32 {
	if m == nil {
		return map[string]uint32{}
	}
	return maps.Clone(m)
}
