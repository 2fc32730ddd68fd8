package chaos

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// The metered key's plan: what the replicas' traffic of 40 requests a second each
// uses up within the ceiling, twice, if they do not hear of each other.
const (
	meteredRate  = 40
	meteredBurst = 4
	meteredQuota = 400
)

func (s *scene) meteredKey() stacktest.Key {
	rate, burst, quota, period := float64(meteredRate), int64(meteredBurst), int64(meteredQuota), "month"
	return s.Key(s.Plan(wire.CreatePlan{Rate: &rate, Burst: &burst, Quota: &quota, QuotaPeriod: &period}))
}

// quotaCell is the same under every fault: [trial.withinQuota] looks.
func quotaCell() cell {
	return cell{must: fmt.Sprintf("the replicas together admit at most the quota and what they let through in MAX_UNSHARED (%v here); beside that 429, and 503 while it is not known", maxUnshared)}
}

func overLimit(s sample) bool { return s.status == http.StatusTooManyRequests }

// withinQuota looks at what the metered key was allowed in all. A replica that was
// killed took some counts with it.
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
		x.t.Errorf("%d requests were allowed of a quota of %d, at most %d may be", admitted, meteredQuota, most)
	}
	r.notes = append(r.notes, fmt.Sprintf("%d of %d admitted, %d times 503", admitted, meteredQuota, refused))
}
