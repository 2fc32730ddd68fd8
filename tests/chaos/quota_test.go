package chaos

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// The traffic is 40 requests per second to each replica. If the replicas could not exchange
// counts, they would allow twice the quota within the ceiling.
const (
	meteredRate  = 40
	meteredBurst = 4
	meteredQuota = 400
)

func (s *scene) meteredKey() stacktest.Key {
	rate, burst, quota, period := float64(meteredRate), int64(meteredBurst), int64(meteredQuota), "month"
	return s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst, Quota: &quota, QuotaPeriod: &period}))
}

func overLimit(s sample) bool { return s.status == http.StatusTooManyRequests }

// withinQuota checks the allowed requests of the metered key. A killed replica may have lost
// counts.
func (x *trial) withinQuota(r *row) {
	x.t.Helper()
	admitted, refused := 0, 0
	for _, y := range x.traffic.metered {
		admitted += y.count(time.Time{}, time.Time{}, allowed)
		refused += y.count(time.Time{}, time.Time{}, denied(http.StatusServiceUnavailable, "gate_unavailable"))
	}
	most := meteredQuota + int(*x.forgot) + len(x.traffic.metered)*(meteredBurst+meteredRate*int(maxUnshared.Seconds()))
	if admitted > most {
		r.failed = true
		x.t.Errorf("allowed requests with a quota of %d: got %d, want at most %d", meteredQuota, admitted, most)
	}
	r.notes = append(r.notes, fmt.Sprintf("%d of %d allowed, 503: %d", admitted, meteredQuota, refused))
}
