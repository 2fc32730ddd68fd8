package webhook

// Config is what the function reads from its environment.
type Config struct {
	Project    string `env:"GOOGLE_CLOUD_PROJECT, required"` // Google Cloud project of the Firestore database
	Kubeconfig string `env:"KUBECONFIG"`                     // of the cluster with the tokens; empty is the one this runs in

	// DeploysURL and BuildsURL are where those functions take CloudEvents; without
	// one a deployment or a build waits for that function's next tick.
	DeploysURL string `env:"DEPLOYS_URL"`
	BuildsURL  string `env:"BUILDS_URL"`

	// AttemptsPerMinute is how often an app's webhook may be called, proven or not:
	// the decisions' 60 are one a second, far beyond any pipeline.
	AttemptsPerMinute int `env:"ATTEMPTS_PER_MINUTE, default=60"`

	// RegistryPrivate lets tags be resolved at registries with loopback, link-local
	// and private addresses. Whoever may deploy chooses the address, so it is off.
	RegistryPrivate bool `env:"REGISTRY_ALLOW_PRIVATE, default=false"`
}
