package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// witnesses are the keys that are revoked under each fault by calls that wait: the first
// when the fault comes, the last with a wait for longer than the ceiling.
const witnesses = 5

// How long those calls wait: briefly where nobody can follow sooner than the ceiling.
const (
	briefly   = 2 * time.Second
	usually   = ceiling
	patiently = ceiling + 10*time.Second
)

// said is what came of a call that waited.
type said struct {
	reply

	key   int       // which witness
	at    time.Time // when the answer was there
	force *wire.InForce
}

// sayings are those of a trial; its surfaces share them.
type sayings struct {
	mu  sync.Mutex
	all []said
}

// changing makes a change below the project that waits until it is in force.
func (s *scene) changing(method, path string, body map[string]any, d time.Duration) reply {
	return s.call(method, world.Info().BaseURL+"/api/v1/projects/"+s.Project+"/"+path, body,
		"Authorization", "Bearer "+s.token, api.Prefer, fmt.Sprintf("wait=%d", d/time.Second))
}

// ends revokes a witness and keeps what is said of it.
func (x *trial) ends(witness int, d time.Duration) said {
	x.t.Helper()
	r := x.changing(http.MethodPost, "api-keys/"+x.witnesses[witness].ID+"/revoke", map[string]any{}, d)
	got := said{reply: r, key: witness, at: time.Now()}
	var k wire.Key
	if r.status < http.StatusBadRequest && r.status != 0 {
		if err := json.Unmarshal(r.body, &k); err != nil || k.InForce == nil || k.InForce.Everywhere != (r.status == http.StatusOK) {
			x.t.Errorf("a revocation that waits: %v: %.300s", r, r.body)
		}
		got.force = k.InForce
	}
	x.sayings.mu.Lock()
	defer x.sayings.mu.Unlock()
	x.sayings.all = append(x.sayings.all, got)
	return got
}

// early lets a witness be revoked while the fault comes.
func (x *trial) early() {
	own := *x
	scene := *x.scene // the fault may sign in anew
	own.scene = &scene
	x.came.Go(func() { own.ends(0, briefly) })
}

// endsAll revokes the other witnesses at once, the last one patiently.
func (x *trial) endsAll(d time.Duration) (brief []said, patient said) {
	x.t.Helper()
	var all sync.WaitGroup
	brief = make([]said, witnesses-2)
	for i := range brief {
		all.Go(func() { brief[i] = x.ends(1+i, d) })
	}
	patient = x.ends(witnesses-1, patiently)
	all.Wait()
	x.came.Wait()
	return brief, patient
}

// followed: changes come to be in force at both replicas.
func followed() cell {
	return cell{
		must: "a change that waits is acknowledged by both replicas; none of its key's requests is allowed at either from then on",
		during: func(x *trial) {
			brief, patient := x.endsAll(usually)
			for _, got := range append(brief, patient) {
				if got.status != http.StatusOK || got.force == nil || slices.ContainsFunc(got.force.Replicas, func(r wire.ReplicaInForce) bool { return r.State != "applied" }) {
					x.t.Errorf("a revocation that waits: %v: %.300s", got.reply, got.body)
				}
			}
		},
	}
}

// unheard: of some replicas, nobody hears that they follow.
func unheard(replicas ...int) cell {
	return cell{
		must: "202 that names who is silent and from when that denies everything, and 200 once that is so; nothing that was not to be allowed is, neither from the answer on nor from that instant",
		during: func(x *trial) {
			brief, patient := x.endsAll(briefly)
			for _, got := range brief {
				x.names(got, http.StatusAccepted, "silent", replicas)
			}
			x.names(patient, http.StatusOK, "denying", replicas)
			x.note("200 after %.1f s, when the silent denied", patient.took.Seconds())
		},
	}
}

// names: an answer says of these replicas that they are in a state, and of the others that
// they follow. On a busy machine they may deny before they are asked about.
func (x *trial) names(got said, status int, state string, replicas []int) {
	x.t.Helper()
	if got.force == nil || got.status != status && got.status != http.StatusOK {
		x.t.Errorf("a revocation that waits: %v, want %d: %.300s", got.reply, status, got.body)
		return
	}
	for i := range x.traffic.replicas {
		want := []string{"applied"}
		if slices.Contains(replicas, i) {
			want = []string{state, "denying"}
		}
		if !slices.ContainsFunc(got.force.Replicas, func(r wire.ReplicaInForce) bool { return replicaOf(r) == i && slices.Contains(want, r.State) }) {
			x.t.Errorf("a revocation that waits does not say of replica %d that it is %s: %s", i, want[0], got.body)
		}
	}
}

// replicaOf gives the number of a replica by its name, e.g. 1 of "checker-1" and of
// "checker-1-3", which has replaced it; -1 of others.
func replicaOf(r wire.ReplicaInForce) int {
	rest, _ := strings.CutPrefix(r.Replica, "checker-")
	number, _, _ := strings.Cut(rest, "-")
	if i, err := strconv.Atoi(number); err == nil {
		return i
	}
	return -1
}

// unsaid: what cannot be recorded is not acknowledged; whatever is said holds.
func unsaid() cell {
	return cell{
		must: "503 unavailable, and nothing is acknowledged; of a change that was recorded before, only what holds is said",
		during: func(x *trial) {
			brief, patient := x.endsAll(usually)
			for _, got := range append(brief, patient) {
				if got.status != http.StatusServiceUnavailable && got.status != http.StatusAccepted && got.status != http.StatusOK {
					x.t.Errorf("a revocation that waits: %v: %.300s", got.reply, got.body)
				}
			}
		},
	}
}

// followedOrNot: a change is acknowledged, or it is said that it is not.
func followedOrNot() cell {
	c := unsaid()
	c.must = "a change that waits is acknowledged, or 202, or 503 unavailable; what is said holds"
	return c
}

// nothingAfter holds under every fault: from an acknowledgement on no request of the key
// is allowed at any replica, nor at a silent one from the instant that was named.
func (x *trial) nothingAfter(r *row) {
	x.t.Helper()
	allowedAfter := func(key, replica int, from time.Time, what string) {
		if n := x.traffic.witnesses[key][replica].count(from, time.Time{}, allowed); n != 0 {
			r.failed = true
			x.t.Errorf("%s allowed %d requests %s", x.traffic.witnesses[key][replica].name, n, what)
		}
	}
	by := map[int]int{}
	slowest := time.Duration(0)
	for _, s := range x.sayings.all {
		by[s.status]++
		if s.force == nil {
			continue
		}
		if s.force.Everywhere {
			slowest = max(slowest, s.took)
			for i := range x.traffic.replicas {
				allowedAfter(s.key, i, s.at, "after it was said to be in force everywhere")
			}
		}
		for _, of := range s.force.Replicas {
			switch i := replicaOf(of); {
			case i < 0:
			case of.State == "silent":
				allowedAfter(s.key, i, *of.DeniesFrom, "after the instant from which it was to deny")
			default:
				allowedAfter(s.key, i, s.at, "after it was said to be "+of.State)
			}
		}
	}
	within := ""
	if by[http.StatusOK] > 0 {
		within = fmt.Sprintf(" within %.1f s", slowest.Seconds())
	}
	r.notes = append(r.notes, fmt.Sprintf("%d acknowledged%s, %d times 202, %d times 503", by[http.StatusOK], within, by[http.StatusAccepted], by[http.StatusServiceUnavailable]))
}

// witnessKeys issues the witnesses.
func (s *scene) witnessKeys() (all [witnesses]stacktest.Key) {
	for i := range all {
		all[i] = s.Key(wire.Plan{ID: s.plan})
	}
	return all
}
