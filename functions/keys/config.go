package keys

// Config is what the function reads from its environment.
type Config struct {
	Project     string `env:"GOOGLE_CLOUD_PROJECT, required"` // Google Cloud project of the Firestore database
	SessionKeys string `env:"SESSION_KEYS_DIR, required"`     // directory of the session keys; public ones suffice

	// MaxKeys bounds the keys of one environment, revoked ones aside: each takes memory
	// in every checker, so that one team without a bound could fill it for all.
	MaxKeys int `env:"MAX_KEYS_PER_ENVIRONMENT, default=10000"`
}
