package wire

import "time"

// App is an app with the state of its gate.
type App struct {
	Name          string     `json:"name" kind:"app"`
	Project       string     `json:"project" kind:"project"`
	Environment   string     `json:"environment" kind:"environment"`
	Host          string     `json:"host" kind:"host"` // public host name of the app
	URL           string     `json:"url" kind:"url"`
	Port          int        `json:"port" kind:"port"`           // port that the app's container listens on
	Kind          string     `json:"kind" kind:"app_kind"`       // kind of the app: deployed from images, or built from its git source
	Image         string     `json:"image"`                      // image of the current revision; "" before the first deployment
	GitSource     *GitSource `json:"git_source"`                 // null for image apps
	RequireAPIKey bool       `json:"require_api_key"`            // desired state of the gate; see gate for the current state
	Preflight     string     `json:"preflight" kind:"preflight"` // handling of CORS preflights to a gated app: app passes them to the app without a key, refuse denies them
	Gate          Gate       `json:"gate"`                       // observed state of the gate
	Revision      int64      `json:"revision" kind:"number"`     // current revision; 0 before the first deployment
	Deployed      *Deployed  `json:"deployed"`                   // current deployment; null before the first one
}

// Deployed summarizes the current deployment of an app.
type Deployed struct {
	At     time.Time `json:"at"`
	Status string    `json:"status" kind:"app_status"` // status of the current revision; idle if the workload has zero desired replicas
}

// Gate is the observed state of an app's gate.
type Gate struct {
	State   string    `json:"state" kind:"gate_state"` // state of the gate; engaged is verified: a request without a key received the gate's 401
	Since   time.Time `json:"since"`
	Message string    `json:"message"` // reason why the gate is not in the desired state; "" if it is
}

// GitSource is the source of a git app.
type GitSource struct {
	Repository string `json:"repository" kind:"repository"` // clone URL with https, http or ssh, without a password
	Branch     string `json:"branch" kind:"branch"`
	Path       string `json:"path" optional:"true" kind:"folder"` // folder in the repository; "" for the root
}

// CreateApp is the body of POST …/apps. Either image or git_source is required.
type CreateApp struct {
	Name      *string    `json:"name,omitempty" required:"true" kind:"app_name"`
	Host      *string    `json:"host,omitempty" kind:"host"` // host of the app; default: a name below the installation's domain
	Port      *int       `json:"port,omitempty" kind:"port"` // port that the app's container listens on; default 8080
	Image     *string    `json:"image,omitempty" kind:"image"`
	GitSource *GitSource `json:"git_source,omitempty"`
	Preflight *string    `json:"preflight,omitempty" kind:"preflight"` // as in App; default app
}

// UpdateApp is the body of PATCH …/apps/{app}.
type UpdateApp struct {
	RequireAPIKey *bool   `json:"require_api_key,omitempty"`            // true to require a valid key for each request
	Preflight     *string `json:"preflight,omitempty" kind:"preflight"` // as in App
	Host          *string `json:"host,omitempty" kind:"host"`           // new host, which no other app uses; the previous host stops working
	Port          *int    `json:"port,omitempty" kind:"port"`           // port that the app's container listens on; a change restarts the pods
}

// DeletedApp is the result of deleting an app.
type DeletedApp struct {
	KeyCount int           `json:"key_count" kind:"count"` // number of keys whose scope named the app
	Keys     []NarrowedKey `json:"keys"`                   // first 100 of these keys

	Host              string    `json:"host" kind:"host"`    // host of the app, reserved for its project
	HostReservedUntil time.Time `json:"host_reserved_until"` // end of the reservation, 30 days after the deletion
}

// HostReservation reserves a host for the project of an app that gave it up.
type HostReservation struct {
	Host    string    `json:"host" kind:"host"`
	App     string    `json:"app" kind:"former_app"` // app that gave the host up, as NAMESPACE.APP
	Project string    `json:"project" kind:"project"`
	Until   time.Time `json:"until"` // end of the reservation; any project can use the host afterwards
}

// NarrowedKey is a key whose scope named a deleted app.
type NarrowedKey struct {
	KeyID string   `json:"key_id" kind:"key_id"`
	Name  string   `json:"name" kind:"key_name"`    // name of the key; "" if unnamed
	Apps  []string `json:"apps" kind:"scope"`       // remaining apps of the scope
	Scope string   `json:"scope" kind:"scope_kind"` // kind of the remaining scope; none if no app remains
}

// Project is a project and the caller's role in it.
type Project struct {
	Name      string    `json:"name" kind:"project"`
	Role      string    `json:"role" kind:"role"` // the caller's role; admins are owners everywhere
	CreatedAt time.Time `json:"created_at"`

	LeakPolicy string   `json:"leak_policy" kind:"leak_policy"` // action on a key whose current secret leaked; disable for a new project
	Registries []string `json:"registries" kind:"registries"`   // registries from which images are allowed; empty for any
}

// UpdateProject is the body of PATCH /projects/{project}.
type UpdateProject struct {
	LeakPolicy Optional[string] `json:"leak_policy,omitzero" nullable:"false" kind:"leak_policy"` // new policy; a disabled key can be enabled again, a revoked key cannot

	Registries Optional[[]string] `json:"registries,omitzero" kind:"registries"` // registries from which images are allowed; null or [] for any
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

// SetMembers is the body of PUT …/members. It replaces all members.
type SetMembers struct {
	Members []Member `json:"members"`
}

// Environment is an environment of a project.
type Environment struct {
	Name      string    `json:"name" kind:"environment"`
	Project   string    `json:"project" kind:"project"`
	Namespace string    `json:"namespace" kind:"namespace"` // Kubernetes namespace, derived from the names of project and environment
	CreatedAt time.Time `json:"created_at"`
}

// CreateEnvironment is the body of POST …/environments.
type CreateEnvironment struct {
	Name *string `json:"name,omitempty" required:"true" kind:"environment"`
}
