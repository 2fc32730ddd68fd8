package checkers

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/tests/check"
)

const ceiling = 90 * time.Second

const schedules = "100000"

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(schedules) // a number
	}
	os.Exit(m.Run())
}

func at(seconds float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(seconds * float64(time.Second))).UTC()
}

func TestReplicaStateFromMember(t *testing.T) {
	t.Parallel()
	c, read := at(100), at(101)
	tests := []struct {
		name   string
		member Member
		want   Replica
	}{
		{"applied", Member{Written: at(90), Applied: at(100.5)}, Replica{State: Applied}},
		{"applied exactly to the commit", Member{Written: at(90), Applied: c}, Replica{State: Applied}},
		{"behind", Member{Written: at(90), Applied: at(99.999)}, Replica{State: Silent, DeniesFrom: at(180.09)}},
		{"a canary after the change with an older applied time", Member{Written: at(100.5), Applied: at(99)}, Replica{State: Silent, DeniesFrom: at(190.59)}},
		{"silent for exactly the ceiling", Member{Written: at(11), Applied: at(11)}, Replica{State: Silent, DeniesFrom: at(101.09)}},
		{"silent for longer than the ceiling", Member{Written: at(10.91), Applied: at(10)}, Replica{State: Denying}},
	}
	for _, test := range tests {
		test.member.Ceiling = ceiling
		check.Equal(t, test.name, []Replica{test.want}, List{Read: read, Members: []Member{test.member}}.Of(c))
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	silent := Replica{Name: "b", State: Silent, DeniesFrom: at(9)}
	got := Merge(
		[]Replica{{Name: "b", State: Applied}, {Name: "c", State: Denying}, {Name: "a", State: Applied}},
		[]Replica{silent, {Name: "c", State: Applied}, {Name: "a", State: Applied}})
	want := []Replica{{Name: "a", State: Applied}, silent, {Name: "c", State: Applied}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if Complete(got) || !Complete(got[:1]) || !Complete(nil) {
		t.Error("Complete: want true only without silent replicas")
	}
}

// TestNoneAllowedAfterIt explores schedules of replicas that receive snapshots late or are paused,
// partitioned, killed, restarted or added. Once the list and the acknowledgments are complete, no
// replica may allow a request by the previous version.
func TestNoneAllowedAfterIt(t *testing.T) {
	t.Parallel()
	counts := map[State]int{}
	complete, byAck := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := &world{ceiling: rapid.SampledFrom([]float64{1, 5, 20}).Draw(t, "ceiling")}
		for range rapid.IntRange(1, 4).Draw(t, "replicas") {
			w.join()
		}
		for range rapid.IntRange(10, 150).Draw(t, "steps") {
			w.step(t)
			for _, r := range w.replicas {
				if w.acknowledged && r.allowsByTheOld(w) {
					t.Fatalf("at %v replica %s allows requests by the version older than %v\n%s", w.now, r.name, w.change, w.story)
				}
			}
		}
		for _, r := range w.judged {
			counts[r.State]++
		}
		if w.acknowledged {
			complete++
			if w.asked {
				byAck++
			}
		}
	})
	t.Logf("%d schedules complete, %d of them by acknowledgments; states %v", complete, byAck, counts)
	if complete == 0 || counts[Applied] == 0 || counts[Denying] == 0 || counts[Silent] == 0 {
		t.Error("the schedules do not reach all states")
	}
}

type world struct {
	ceiling  float64
	now      float64
	replicas []*replica
	commits  []canary

	change       float64 // commit time; 0 before the commit
	list         List    // as last read
	judged       []Replica
	asked        bool
	acknowledged bool
	story        story
}

type event struct {
	at            float64
	what, replica string
}

type story []event

func (s story) String() string {
	var b strings.Builder
	for _, e := range s {
		fmt.Fprintf(&b, "%8.3f %s %s\n", e.at, e.what, e.replica)
	}
	return b.String()
}

type canary struct {
	Member

	seq       int
	committed float64
}

type replica struct {
	name    string
	run     int
	dead    bool
	stopped bool // paused, while clocks continue
	cut     bool // partitioned from the store
	begun   []float64
	writing []canary // in flight; may be committed even after the replica is killed
	view    float64  // applied read time; -1 for none
	proven  float64  // start of the write of the last returned canary; -1 for none
}

func (r *replica) live() {
	*r = replica{name: r.name, run: r.run + 1, writing: r.writing, view: -1, proven: -1}
}

func (w *world) join() {
	r := &replica{name: fmt.Sprintf("r%d", len(w.replicas))}
	r.live()
	w.replicas = append(w.replicas, r)
}

func (r *replica) allowsByTheOld(w *world) bool {
	return !r.dead && !r.stopped && r.proven >= 0 && w.now-r.proven < w.ceiling && w.change > 0 && r.view < w.change
}

// The possible steps, repeated by probability, and the times between them in ceilings.
var (
	steps = strings.Fields("begin begin begin begin commit commit commit commit lose receive receive receive late late late " +
		"read read read read ask ask ask ask ask ask change stop go-on go-on cut heal heal kill restart restart join")
	times = []float64{0, 0, 0, 0, 0.001, 0.001, 0.001, 0.01, 0.01, 0.01, 0.01, 0.1, 0.1, 0.5}
)

func (w *world) step(t *rapid.T) {
	w.now += rapid.SampledFrom(times).Draw(t, "time") * w.ceiling
	r := w.replicas[rapid.IntRange(0, len(w.replicas)-1).Draw(t, "replica")]
	what := rapid.SampledFrom(steps).Draw(t, "what")
	w.story = append(w.story, event{at: w.now, what: what, replica: r.name})
	switch what {
	case "stop":
		r.stopped = true
	case "go-on":
		r.stopped = false
	case "cut":
		r.cut = true
	case "heal":
		r.cut = false
	case "kill":
		r.dead = true
	case "restart":
		if r.dead {
			r.live()
		}
	case "join":
		if len(w.replicas) < 6 {
			w.join()
		}
	case "change":
		if w.change == 0 {
			w.change = w.now
		}
	default:
		w.talk(r, what, t)
	}
}

func (w *world) talk(r *replica, what string, t *rapid.T) {
	awake := !r.dead && !r.stopped && !r.cut
	switch {
	case what == "begin" && awake:
		r.begun = append(r.begun, w.now)
		m := Member{Replica: r.name, Run: fmt.Sprint(r.run), Applied: at(r.view), Ceiling: time.Duration(w.ceiling * float64(time.Second))}
		r.writing = append(r.writing, canary{Member: m, seq: len(r.begun) - 1})
	case (what == "commit" || what == "lose") && len(r.writing) > 0:
		c := r.writing[0]
		r.writing = r.writing[1:]
		if what == "commit" {
			c.Written, c.committed = at(w.now), w.now
			w.commits = append(w.commits, c)
		}
	case what == "receive" && awake:
		w.receive(r, w.now)
	case what == "late" && awake && r.view >= 0:
		w.receive(r, max(r.view, w.now-rapid.SampledFrom(times).Draw(t, "late")*w.ceiling))
	case what == "read" && w.change > 0:
		w.list = List{Read: at(w.now)}
		for _, c := range w.canaries(w.now) {
			w.list.Members = append(w.list.Members, c.Member)
		}
		w.judge()
	case what == "ask" && awake:
		for i, m := range w.list.Members {
			if m.Replica == r.name && m.Run == fmt.Sprint(r.run) {
				w.list.Members[i].Applied = at(r.view)
				w.asked = true
				w.judge()
			}
		}
	}
}

func (w *world) judge() {
	w.judged = w.list.Of(at(w.change))
	w.acknowledged = w.acknowledged || Complete(w.judged)
}

func (w *world) canaries(read float64) map[string]canary {
	all := map[string]canary{}
	for _, c := range w.commits {
		if c.committed <= read {
			all[c.Replica] = c
		}
	}
	return all
}

func (w *world) receive(r *replica, read float64) {
	r.view = read
	if c, ok := w.canaries(read)[r.name]; ok && c.Run == fmt.Sprint(r.run) {
		r.proven = max(r.proven, r.begun[c.seq])
	}
}
