package usage

import "time"

// Config is what the function reads from its environment.
type Config struct {
	Project     string `env:"GOOGLE_CLOUD_PROJECT, required"` // Google Cloud project of the Firestore database
	SessionKeys string `env:"SESSION_KEYS_DIR, required"`     // directory of the session keys; public ones suffice

	// Recent is for how long counters that were read serve other requests, in
	// seconds. It adds to a report's age; the checkers' flush interval is 2 s by
	// default, so counts show within 4 s. 0 reads them for every request.
	Recent int `env:"RECENT_SECONDS, default=2"`
}

func (c Config) recent() time.Duration { return time.Duration(c.Recent) * time.Second }
