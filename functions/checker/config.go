package checker

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/sluicegate/sluice/shared/store"
)

// Ceiling is the maximum of [Config.MaxStaleness] (promise F1).
const Ceiling = 90 * time.Second

// Config contains the settings of a checker.
type Config struct {
	store.Database

	Replica string `env:"POD_NAME, required"` // unique among the running replicas
	TLSDir  string `env:"TLS_DIR, required"`

	// PodIP is the address at which this replica receives queries and its peers' counts. Without
	// it, the replica acknowledges changes only in its canaries, and does not share rates.
	PodIP string `env:"POD_IP"`
	Port  int    `env:"PORT, default=8080"`

	// SpentDir is a directory for the processes of this pod only. Processes record the use of hard
	// quotas in it, so that after a crash the next process can return the unspent requests.
	SpentDir string `env:"SPENT_DIR"`

	// MaxStaleness is the maximum age of the view while the replica allows requests.
	MaxStaleness time.Duration `env:"MAX_STALENESS, default=90s"`

	// CanaryInterval is the time between two canaries of a data type. With the default, a replica
	// writes 17,280 canaries a day, and can lose a few of the five within the ceiling.
	CanaryInterval time.Duration `env:"CANARY_INTERVAL, default=15s"`

	// FlushInterval is the time between two writes of the counts.
	FlushInterval time.Duration `env:"FLUSH_INTERVAL, default=2s"`

	// MaxUnshared is the time for which a replica trusts quotas after it last shared its counts.
	// Later, it returns 503 for keys whose quota others may have used up. With the default, two
	// flushes may fail without effect.
	MaxUnshared time.Duration `env:"MAX_UNSHARED, default=5s"`

	// ConnectionAge is the mean age at which a proxy's connection is closed. The age of each
	// connection is 50% to 150% of it. 0 means no limit.
	ConnectionAge time.Duration `env:"CONNECTION_AGE, default=30s"`

	// DenialsLogged is the number of denials logged per second after a burst of 128. The default
	// produces at most 130 MB a day.
	DenialsLogged int `env:"DENIALS_LOGGED_PER_SECOND, default=5"`
}

func (c Config) address() string {
	if c.PodIP == "" {
		return ""
	}
	return net.JoinHostPort(c.PodIP, strconv.Itoa(c.Port))
}

// Check returns an error if a setting would break a promise (F1, U2).
func (c Config) Check() error {
	switch {
	case c.MaxStaleness <= 0 || c.MaxStaleness > Ceiling:
		return fmt.Errorf("MAX_STALENESS is %v, but must be greater than 0 and at most %v", c.MaxStaleness, Ceiling)
	case c.CanaryInterval <= 0 || c.CanaryInterval > c.MaxStaleness/3:
		return fmt.Errorf("CANARY_INTERVAL is %v, but must be greater than 0 and at most a third of MAX_STALENESS (%v)", c.CanaryInterval, c.MaxStaleness)
	case c.FlushInterval <= 0 || c.FlushInterval > 2*time.Second:
		return fmt.Errorf("FLUSH_INTERVAL is %v, but must be greater than 0 and at most 2s", c.FlushInterval)
	case c.MaxUnshared <= c.FlushInterval || c.MaxUnshared > Ceiling:
		return fmt.Errorf("MAX_UNSHARED is %v, but must be greater than FLUSH_INTERVAL (%v) and at most %v", c.MaxUnshared, c.FlushInterval, Ceiling)
	case c.ConnectionAge < 0:
		return fmt.Errorf("CONNECTION_AGE is %v, but must not be negative", c.ConnectionAge)
	case !validReplica(c.Replica):
		return errors.New("POD_NAME must consist of 1 to 253 characters of a-z, 0-9, '-' and '.'")
	}
	return nil
}

// validReplica reports whether s can be part of a document's ID.
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
