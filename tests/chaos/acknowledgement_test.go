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

// witnesses is the number of keys that each trial revokes by calls that wait. The first key is
// revoked when the fault begins, and the last one with longWait.
const witnesses = 5

const (
	shortWait  = 4 * time.Second
	normalWait = ceiling
	longWait   = ceiling + 10*time.Second
)

type waitResult struct {
	reply

	key   int
	at    time.Time
	force *wire.InForce
}

type waitResults struct {
	mu  sync.Mutex
	all []waitResult
}

func (s *scene) changing(method, path string, body map[string]any, d time.Duration) reply {
	return s.call(method, world.Info().BaseURL+"/api/v1/projects/"+s.Project+"/"+path, body,
		"Authorization", "Bearer "+s.token, api.Prefer, fmt.Sprintf("wait=%d", d/time.Second))
}

// revokeWitness revokes a witness with a wait and records the result.
func (x *trial) revokeWitness(witness int, d time.Duration) waitResult {
	x.t.Helper()
	r := x.changing(http.MethodPost, "api-keys/"+x.witnesses[witness].ID+"/revoke", map[string]any{}, d)
	got := waitResult{reply: r, key: witness, at: time.Now()}
	var k wire.Key
	if r.status < http.StatusBadRequest && r.status != 0 {
		if err := json.Unmarshal(r.body, &k); err != nil || k.InForce == nil || k.InForce.Everywhere != (r.status == http.StatusOK) {
			x.t.Errorf("revocation with a wait: got %v: %.300s", r, r.body)
		}
		got.force = k.InForce
	}
	x.results.mu.Lock()
	defer x.results.mu.Unlock()
	x.results.all = append(x.results.all, got)
	return got
}

// early revokes the first witness while the fault begins.
func (x *trial) early() {
	own := *x
	scene := *x.scene // the fault may sign in again
	own.scene = &scene
	x.came.Go(func() { own.revokeWitness(0, shortWait) })
}

// revokeWitnesses revokes the other witnesses concurrently.
func (x *trial) revokeWitnesses(d time.Duration) (short []waitResult, long waitResult) {
	x.t.Helper()
	var all sync.WaitGroup
	short = make([]waitResult, witnesses-2)
	for i := range short {
		all.Go(func() { short[i] = x.revokeWitness(1+i, d) })
	}
	long = x.revokeWitness(witnesses-1, longWait)
	all.Wait()
	x.came.Wait()
	return short, long
}

// confirmed expects that both replicas confirm changes.
func confirmed() cell {
	return cell{
		during: func(x *trial) {
			short, long := x.revokeWitnesses(normalWait)
			for _, got := range append(short, long) {
				if got.status != http.StatusOK || got.force == nil || slices.ContainsFunc(got.force.Replicas, func(r wire.ReplicaInForce) bool { return r.State != "applied" }) {
					x.t.Errorf("revocation with a wait: got %v: %.300s", got.reply, got.body)
				}
			}
		},
	}
}

// unconfirmed expects that these replicas cannot confirm changes.
func unconfirmed(replicas ...int) cell {
	return cell{
		want: "202 names each silent replica and the time from which it denies, then 200; no request is allowed after either",
		during: func(x *trial) {
			short, long := x.revokeWitnesses(shortWait)
			for _, got := range short {
				x.names(got, http.StatusAccepted, "silent", replicas)
			}
			x.names(long, http.StatusOK, "denying", replicas)
			x.note("200 after %.1f s", long.took.Seconds())
		},
	}
}

// names checks that the given replicas are in state and the others have applied the change. On a
// busy machine, the given replicas may already deny all requests.
func (x *trial) names(got waitResult, status int, state string, replicas []int) {
	x.t.Helper()
	if got.force == nil || got.status != status && got.status != http.StatusOK {
		x.t.Errorf("revocation with a wait: got %v, want %d: %.300s", got.reply, status, got.body)
		return
	}
	for i := range x.traffic.replicas {
		want := []string{"applied"}
		if slices.Contains(replicas, i) {
			want = []string{state, "denying"}
		}
		if !slices.ContainsFunc(got.force.Replicas, func(r wire.ReplicaInForce) bool { return replicaOf(r) == i && slices.Contains(want, r.State) }) {
			x.t.Errorf("state of replica %d after a revocation with a wait: got %s, want %s", i, got.body, want[0])
		}
	}
}

// replicaOf returns the number of a replica, such as 1 for "checker-1" and its replacement
// "checker-1-3", or -1.
func replicaOf(r wire.ReplicaInForce) int {
	rest, _ := strings.CutPrefix(r.Replica, "checker-")
	number, _, _ := strings.Cut(rest, "-")
	if i, err := strconv.Atoi(number); err == nil {
		return i
	}
	return -1
}

func unavailableOrCorrect() cell {
	return cell{
		want: "503 unavailable, or a correct 200 or 202 if the change was stored before",
		during: func(x *trial) {
			short, long := x.revokeWitnesses(normalWait)
			for _, got := range append(short, long) {
				if got.status != http.StatusServiceUnavailable && got.status != http.StatusAccepted && got.status != http.StatusOK {
					x.t.Errorf("revocation with a wait: got %v: %.300s", got.reply, got.body)
				}
			}
		},
	}
}

func confirmedOrNot() cell {
	c := unavailableOrCorrect()
	c.want = "200, 202 or 503 unavailable; every response is correct"
	return c
}

// nothingAfter checks that no replica allows a witness's request after the confirmation, or after
// the reported time from which a silent replica denies.
func (x *trial) nothingAfter(r *row) {
	x.t.Helper()
	allowedAfter := func(key, replica int, from time.Time, what string) {
		if n := x.traffic.witnesses[key][replica].count(from, time.Time{}, allowed); n != 0 {
			r.failed = true
			x.t.Errorf("%s: got %d allowed requests %s, want 0", x.traffic.witnesses[key][replica].name, n, what)
		}
	}
	by := map[int]int{}
	slowest := time.Duration(0)
	for _, s := range x.results.all {
		by[s.status]++
		if s.force == nil {
			continue
		}
		if s.force.Everywhere {
			slowest = max(slowest, s.took)
			for i := range x.traffic.replicas {
				allowedAfter(s.key, i, s.at, "after the change was in force everywhere")
			}
		}
		for _, of := range s.force.Replicas {
			switch i := replicaOf(of); {
			case i < 0:
			case of.State == "silent":
				allowedAfter(s.key, i, *of.DeniesFrom, "after the time from which it must deny")
			default:
				allowedAfter(s.key, i, s.at, "after it was reported as "+of.State)
			}
		}
	}
	within := ""
	if by[http.StatusOK] > 0 {
		within = fmt.Sprintf(" in %.1f s", slowest.Seconds())
	}
	r.notes = append(r.notes, fmt.Sprintf("%d/%d/%d%s", by[http.StatusOK], by[http.StatusAccepted], by[http.StatusServiceUnavailable], within))
}

func (s *scene) witnessKeys() (all [witnesses]stacktest.Key) {
	for i := range all {
		all[i] = s.Key(wire.Plan{ID: s.plan})
	}
	return all
}
