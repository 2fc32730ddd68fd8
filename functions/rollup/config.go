package rollup

import "time"

// Config is what the function reads from its environment.
type Config struct {
	Project string `env:"GOOGLE_CLOUD_PROJECT, required"` // Google Cloud project of the Firestore database

	// Parallel bounds the transactions under way at once: enough to hide the
	// store's latency, too few to crowd out the checkers' writes.
	Parallel int `env:"ROLLUP_PARALLEL, default=8"`
	// Run bounds one run, in seconds, below the minute after which the next
	// begins. What is left over is done by the next one.
	Run int `env:"ROLLUP_RUN_SECONDS, default=50"`
}

func (c Config) run() time.Duration { return time.Duration(c.Run) * time.Second }
