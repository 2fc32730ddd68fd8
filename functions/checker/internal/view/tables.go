package view

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/functions/checker/internal/bucket"
	"github.com/sluicegate/sluice/shared/plan"
)

// symbolTable numbers app names, so that entries hold numbers. Symbols are never
// taken out: there are as many as apps.
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

// planRow is a plan's place: given out when a key or the plan itself first
// names it, whichever the listeners hear first.
type planRow struct {
	namespace string
	limits    Limits
	defined   bool
}

//nolint:gochecknoglobals // a constant: what a place that nobody was given holds
var noPlan planRow

// Plan is what a key's holder may be told of its plan, beside its limits. No decision
// needs it, so it lies apart from what decisions read.
type Plan struct {
	ID          plan.ID // e.g. "plan-starter"
	Name        string  // for people
	Environment string  // of its keys, e.g. "prod"; "" until there is one
	Rate        float64 // requests per second
	Burst       int64   // requests at once
	Policy      plan.Policy
}

// planTable holds plans by place. A place stays its plan's while the plan is defined or a
// key refers to it (see [View.sweepPlans]).
type planTable struct {
	rows    []planRow
	told    []Plan            // as long
	places  map[string]uint32 // by planName
	free    []uint32          // places that nothing refers to
	defined int
	kept    int // places without a plan that the last sweep had to keep

	ownRows, ownPlaces bool // cloned by this edit; until then they are another view's too
}

func planName(namespace string, id plan.ID) string { return namespace + "." + string(id) }

// namespaceOf gives a plan's namespace, which as a DNS label holds no ".".
func namespaceOf(name string) string {
	namespace, _, _ := strings.Cut(name, ".")
	return namespace
}

// at gives what is known of a place; it is not to be changed.
func (t *planTable) at(place uint32) *planRow {
	if int(place) >= len(t.rows) {
		return &noPlan
	}
	return &t.rows[place]
}

func (t planTable) edit() planTable {
	t.ownRows, t.ownPlaces = false, false
	return t
}

// own lets this edit change the rows, and what is told of them.
func (t *planTable) own() {
	if !t.ownRows {
		t.rows, t.told, t.ownRows = slices.Clone(t.rows), slices.Clone(t.told), true
	}
}

func (t *planTable) place(name string) uint32 {
	if at, ok := t.places[name]; ok {
		return at
	}
	t.own()
	if !t.ownPlaces {
		t.places, t.ownPlaces = cloned(t.places), true
	}
	at := uint32(len(t.rows))
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.rows, t.told = append(t.rows, planRow{}), append(t.told, Plan{})
	}
	namespace, id, _ := strings.Cut(name, ".")
	t.rows[at], t.told[at] = planRow{namespace: namespace}, Plan{ID: plan.ID(id)}
	t.places[name] = at
	return at
}

// placeOf gives the place of a key's plan, and notes whose environment it is: a plan does
// not say so itself.
func (t *planTable) placeOf(name, environment string) uint32 {
	at := t.place(name)
	if t.told[at].Environment != environment {
		t.own()
		t.told[at].Environment = environment
	}
	return at
}

// define says what a plan is.
func (t *planTable) define(c PlanChange) {
	s, told := t.row(c.Document)
	if !s.defined {
		t.defined++
	}
	shape := bucket.ShapeOf(c.Limits)
	s.limits, s.defined = Limits{Bucket: shape, Quota: c.Limits.Quota, Hard: c.Limits.Hard, Period: c.Limits.Period, Unsaid: shape.Most(unsaid)}, true
	told.Name, told.Rate, told.Burst, told.Policy = c.Name, c.Limits.Rate, c.Limits.Burst, plan.PolicyOf(c.Limits)
}

// forget says that there is no such plan.
func (t *planTable) forget(name string) {
	s, told := t.row(name)
	if s.defined {
		t.defined--
	}
	s.limits, s.defined = Limits{}, false
	*told = Plan{ID: told.ID, Environment: told.Environment}
}

func (t *planTable) row(name string) (*planRow, *Plan) {
	at := t.place(name)
	t.own()
	return &t.rows[at], &t.told[at]
}

// PlanChange is a plan as it now is, or that it is gone.
type PlanChange struct {
	Document string // the document's id, "{namespace}.{plan id}"
	Gone     bool
	Name     string      // unless Gone
	Limits   plan.Limits // unless Gone
}

// unsaid is until a replica's counts are heard through the store: two flushes and the way.
const unsaid = 5 * time.Second

// WithPlans gives v with changes applied in their order. With reset the changes
// are all plans there are.
func (v *View) WithPlans(reset bool, changes []PlanChange) *View {
	next := *v
	next.plans = v.plans.edit()
	if reset {
		for name := range v.plans.places {
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

// plansKept is the number of places without a plan that are not worth a sweep.
const plansKept = 1000

// sweepPlans frees the places that have no plan and that no key refers to, once there are
// many. It reads all keys, so it runs only when the places have doubled since.
func (v *View) sweepPlans() {
	t := &v.plans
	if len(t.places)-t.defined < max(plansKept, 2*t.kept) {
		return
	}
	used := make([]bool, len(t.rows))
	for _, s := range v.shards {
		for i := range s.keys() {
			used[s.entries[i].plan] = true
		}
	}
	t.own()
	places, free := make(map[string]uint32, t.defined), slices.Clone(t.free)
	for name, at := range t.places {
		if used[at] || t.rows[at].defined {
			places[name] = at
			continue
		}
		t.rows[at], t.told[at] = planRow{}, Plan{}
		free = append(free, at)
	}
	t.places, t.free, t.ownPlaces, t.kept = places, free, true, len(places)-t.defined
}

func cloned(m map[string]uint32) map[string]uint32 {
	if m == nil {
		return map[string]uint32{}
	}
	return maps.Clone(m)
}
