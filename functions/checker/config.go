package checker

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/store"
)

// Ceiling is how old a replica's view may be at most while it allows
// (promise F1). It can be set lower, never higher.
const Ceiling = 90 * time.Second

// Config is the checker's environment.
type Config struct {
	store.Database

	Replica string `env:"POD_NAME, required"` // unique among the replicas running at one time
	TLSDir  string `env:"TLS_DIR, required"`  // holds tls.crt and tls.key; read again when they change

	// PodIP is where this replica, and no other, can be asked what it has applied, and told
	// what others have allowed; without one those who wait for a change hear of it by its
	// next canary, and rates are each replica's own.
	PodIP string `env:"POD_IP"`
	Port  int    `env:"PORT, default=8080"`

	// SpentDir is a folder that only the processes of this pod use. A process records there
	// what it spends of hard quotas, so that the next one can return the rest after a crash.
	// Without a folder the rest stays leased until the period ends.
	SpentDir string `env:"SPENT_DIR"`

	// MaxStaleness is the ceiling of this replica: at most 90 s, lowered in tests.
	MaxStaleness time.Duration `env:"MAX_STALENESS, default=90s"`

	// CanaryInterval is from one canary of a data type to the next. At 15 s five
	// of them fit under the ceiling, so a few lost ones do no harm, and a replica
	// costs 17 280 document writes a day.
	CanaryInterval time.Duration `env:"CANARY_INTERVAL, default=15s"`

	// FlushInterval is how often counted requests are written: the most that a
	// replica that is killed can lose, and the time in which replicas learn of
	// each other's counts. At most 2 s.
	FlushInterval time.Duration `env:"FLUSH_INTERVAL, default=2s"`

	// MaxUnshared is how long replicas admit by what they have heard of each other's
	// counts after they last could share them: from then on a request is refused with
	// 503 when others may have used the rest of its key's quota. At 5 s two flushes may
	// fail, or the store be slow, without any key noticing.
	MaxUnshared time.Duration `env:"MAX_UNSHARED, default=5s"`

	// ConnectionAge is about how long a proxy's connection lives before it is ended without
	// a failed request, from half of it to half more: the next one may lead to another
	// replica. 0 lets it live as long as the proxy does.
	ConnectionAge time.Duration `env:"CONNECTION_AGE, default=30s"`

	// DenialsLogged is how many denials are logged a second, after a burst of 128;
	// the rest is counted. 5 lines are 130 MB in a day of nothing but attacks.
	DenialsLogged int `env:"DENIALS_LOGGED_PER_SECOND, default=5"`
}

// address is where this replica can be asked, host:port; "" nowhere.
func (c Config) address() string {
	if c.PodIP == "" {
		return ""
	}
	return net.JoinHostPort(c.PodIP, strconv.Itoa(c.Port))
}

// Check refuses what would break a promise (promises F1, U2).
func (c Config) Check() error {
	switch {
	case c.MaxStaleness <= 0 || c.MaxStaleness > Ceiling:
		return fmt.Errorf("MAX_STALENESS is %v, but must be above 0 and at most %v", c.MaxStaleness, Ceiling)
	case c.CanaryInterval <= 0 || c.CanaryInterval > c.MaxStaleness/3:
		return fmt.Errorf("CANARY_INTERVAL is %v, but must be above 0 and at most a third of MAX_STALENESS (%v)", c.CanaryInterval, c.MaxStaleness)
	case c.FlushInterval <= 0 || c.FlushInterval > 2*time.Second:
		return fmt.Errorf("FLUSH_INTERVAL is %v, but must be above 0 and at most 2s", c.FlushInterval)
	case c.MaxUnshared <= c.FlushInterval || c.MaxUnshared > Ceiling:
		return fmt.Errorf("MAX_UNSHARED is %v, but must be above FLUSH_INTERVAL (%v) and at most %v", c.MaxUnshared, c.FlushInterval, Ceiling)
	case c.ConnectionAge < 0:
		return fmt.Errorf("CONNECTION_AGE is %v, but must not be negative", c.ConnectionAge)
	case !validReplica(c.Replica):
		return errors.New("POD_NAME must be 1 to 253 of a-z, 0-9, '-' and '.'")
	}
	return nil
}

// validReplica takes what Kubernetes takes as a pod's name: it becomes a part
// of a document's id.
func validReplica(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return true
}
