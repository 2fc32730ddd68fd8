package wire

import "time"

// App is an app with what its gate is doing.
type App struct {
	Name          string     `json:"name" kind:"app"`
	Project       string     `json:"project" kind:"project"`
	Environment   string     `json:"environment" kind:"environment"`
	Host          string     `json:"host" kind:"host"`           // that the ingress serves the app on
	URL           string     `json:"url" kind:"url"`             // of the app from outside
	Port          int        `json:"port" kind:"port"`           // that the app's container listens on
	Kind          string     `json:"kind" kind:"app_kind"`       // image apps are deployed from an image, git apps are built
	Image         string     `json:"image"`                      // of the current revision; "" before the first
	GitSource     *GitSource `json:"git_source"`                 // null is an image app
	RequireAPIKey bool       `json:"require_api_key"`            // the desired state; gate shows the observed one
	Preflight     string     `json:"preflight" kind:"preflight"` // of a gated app: app answers CORS preflights without a key, or the gate refuses them
	Gate          Gate       `json:"gate"`                       // what is observed
	Revision      int64      `json:"revision" kind:"number"`     // the current one; 0 before the first deployment
	Deployed      *Deployed  `json:"deployed"`                   // null before the first deployment
}

// Deployed is what a list of apps tells about each one's current deployment.
type Deployed struct {
	At     time.Time `json:"at"`
	Status string    `json:"status" kind:"app_status"` // of the current revision; idle if the workload has zero desired replicas
}

// Gate is the observed state of an app's gate.
type Gate struct {
	State   string    `json:"state" kind:"gate_state"` // engaged is proven: a request without a key got the gate's own 401
	Since   time.Time `json:"since"`
	Message string    `json:"message"` // why it is not further; "" when all is well
}

// GitSource is where a git app is built from.
type GitSource struct {
	Repository string `json:"repository" kind:"repository"`       // clone URL over https, http or ssh, without a password
	Branch     string `json:"branch" kind:"branch"`               // the branch that is built
	Path       string `json:"path" optional:"true" kind:"folder"` // folder inside the repository; "" is its root
}

// CreateApp is the body of POST …/apps. name is required, and image or git_source.
type CreateApp struct {
	Name      *string    `json:"name,omitempty" required:"true" kind:"app_name"`
	Host      *string    `json:"host,omitempty" kind:"host"` // left out, the app gets one below the installation's domain
	Port      *int       `json:"port,omitempty" kind:"port"` // 8080 if left out
	Image     *string    `json:"image,omitempty" kind:"image"`
	GitSource *GitSource `json:"git_source,omitempty"`
	Preflight *string    `json:"preflight,omitempty" kind:"preflight"` // app if left out
}

// UpdateApp is the body of PATCH …/apps/{app}.
type UpdateApp struct {
	RequireAPIKey *bool   `json:"require_api_key,omitempty"`            // true: only requests with a valid key are served
	Preflight     *string `json:"preflight,omitempty" kind:"preflight"` // app: the app answers CORS preflights; refuse: they need a key
	Host          *string `json:"host,omitempty" kind:"host"`           // no other app's; the app stops serving on its former host
	Port          *int    `json:"port,omitempty" kind:"port"`           // that the app's container listens on; its pods restart
}

// DeletedApp is the result of an app's deletion.
type DeletedApp struct {
	KeyCount int           `json:"key_count" kind:"count"` // the number of keys whose scope named the app
	Keys     []NarrowedKey `json:"keys"`                   // the first 100 of these keys

	Host              string    `json:"host" kind:"host"`    // of the app; reserved for its project, so no other project can have it
	HostReservedUntil time.Time `json:"host_reserved_until"` // 30 days after the deletion
}

// HostReservation is a host that is reserved for the project of an app that gave it up.
type HostReservation struct {
	Host    string    `json:"host" kind:"host"`
	App     string    `json:"app" kind:"former_app"` // the app that gave the host up, as NAMESPACE.APP
	Project string    `json:"project" kind:"project"`
	Until   time.Time `json:"until"` // from then on any project can have the host
}

// NarrowedKey is a key whose scope named an app that was deleted.
type NarrowedKey struct {
	KeyID string   `json:"key_id" kind:"key_id"`
	Name  string   `json:"name" kind:"key_name"`    // empty if none
	Apps  []string `json:"apps" kind:"scope"`       // the other apps of its scope
	Scope string   `json:"scope" kind:"scope_kind"` // apps, or none if the scope named no other app
}

// Project is a project and the caller's role in it.
type Project struct {
	Name      string    `json:"name" kind:"project"`
	Role      string    `json:"role" kind:"role"` // the caller's; admins are owners everywhere
	CreatedAt time.Time `json:"created_at"`

	LeakPolicy string   `json:"leak_policy" kind:"leak_policy"` // what happens to a key when its current secret has leaked
	Registries []string `json:"registries" kind:"registries"`   // that images may come from; empty is any
}

// UpdateProject is the body of PATCH /projects/{project}.
type UpdateProject struct {
	LeakPolicy Optional[string] `json:"leak_policy,omitzero" nullable:"false" kind:"leak_policy"` // disable, which can be taken back, or revoke

	Registries Optional[[]string] `json:"registries,omitzero" kind:"registries"` // that images may come from; null or [] is any
}

// CreateProject is the body of POST /projects.
type CreateProject struct {
	Name *string `json:"name,omitempty" required:"true" kind:"project"`
}

// Member is a user's role in a project.
type Member struct {
	Username string `json:"username" kind:"username"`
	Role     string `json:"role" kind:"role"`
}

// SetMembers is the body of PUT …/members: the whole list.
type SetMembers struct {
	Members []Member `json:"members"`
}

// Environment is an environment of a project.
type Environment struct {
	Name      string    `json:"name" kind:"environment"`
	Project   string    `json:"project" kind:"project"`
	Namespace string    `json:"namespace" kind:"namespace"` // of Kubernetes: the project's and the environment's names
	CreatedAt time.Time `json:"created_at"`
}

// CreateEnvironment is the body of POST …/environments.
type CreateEnvironment struct {
	Name *string `json:"name,omitempty" required:"true" kind:"environment"`
}
