package wire

import "time"

// App is an app with what its gate is doing.
type App struct {
	Name          string     `json:"name"`
	Project       string     `json:"project"`
	Environment   string     `json:"environment"`
	Host          string     `json:"host"`
	URL           string     `json:"url"`
	Port          int        `json:"port"`
	Kind          string     `json:"kind"` // image or git
	Image         string     `json:"image"`
	GitSource     *GitSource `json:"git_source"`
	RequireAPIKey bool       `json:"require_api_key"`
	Gate          Gate       `json:"gate"`
	Revision      int64      `json:"revision"`
	Deployed      *Deployed  `json:"deployed"` // null before the first deployment
}

// Deployed is what a list of apps tells about each one's current deployment.
type Deployed struct {
	At     time.Time `json:"at"`
	Status string    `json:"status"` // rolling_out, live, failed, superseded
}

// Gate is the observed state of an app's gate.
type Gate struct {
	State   string    `json:"state"` // ungated, pending, engaged, releasing
	Since   time.Time `json:"since"`
	Message string    `json:"message"`
}

// GitSource is where a git app is built from.
type GitSource struct {
	Repository string `json:"repository"`
	Branch     string `json:"branch"`
	Path       string `json:"path,omitempty"`
}

// CreateApp is the body of POST …/apps. name is required, and image or git_source.
type CreateApp struct {
	Name      *string    `json:"name,omitempty"`
	Host      *string    `json:"host,omitempty"`
	Port      *int       `json:"port,omitempty"`
	Image     *string    `json:"image,omitempty"`
	GitSource *GitSource `json:"git_source,omitempty"`
}

// UpdateApp is the body of PATCH …/apps/{app}.
type UpdateApp struct {
	RequireAPIKey *bool `json:"require_api_key,omitempty"`
}

// Project is a project and the caller's role in it.
type Project struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	CreatedAt time.Time `json:"created_at"`
}

// CreateProject is the body of POST /projects.
type CreateProject struct {
	Name *string `json:"name,omitempty"`
}

// Member is a user's role in a project.
type Member struct {
	Username string `json:"username"`
	Role     string `json:"role"`
}

// SetMembers is the body of PUT …/members: the whole list.
type SetMembers struct {
	Members []Member `json:"members"`
}

// Environment is an environment of a project.
type Environment struct {
	Name      string    `json:"name"`
	Project   string    `json:"project"`
	Namespace string    `json:"namespace"`
	CreatedAt time.Time `json:"created_at"`
}

// CreateEnvironment is the body of POST …/environments.
type CreateEnvironment struct {
	Name *string `json:"name,omitempty"`
}
