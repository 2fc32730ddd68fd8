package keys

// Config is what the function reads from its environment.
type Config struct {
	Project     string `env:"GOOGLE_CLOUD_PROJECT, required"` // Google Cloud project of the Firestore database
	SessionKeys string `env:"SESSION_KEYS_DIR, required"`     // directory of the session keys; public ones suffice
}
