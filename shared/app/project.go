package app

import "time"

// Project groups environments and says who may do what in them.
type Project struct {
	Name      string          // a DNS label, e.g. "shop"
	Members   map[string]Role // by username
	CreatedAt time.Time
}

// Environment is a place to run a project's apps, with keys and plans of its own.
type Environment struct {
	Project   string
	Name      string // a DNS label, e.g. "prod"
	Namespace string // "{project}-{environment}", unique in the installation
	CreatedAt time.Time
}

// Role is what a member may do in a project (decisions section 3).
type Role string

// The roles, from least to most.
const (
	Viewer    Role = "viewer"    // reads
	Developer Role = "developer" // also deploys and manages apps, keys and plans
	Owner     Role = "owner"     // also manages members and environments
)

// Valid tells whether r is one of the three.
func (r Role) Valid() bool { return r.rank() > 0 }

// Allows tells whether a member with role r may do what needs the role need.
func (r Role) Allows(need Role) bool { return r.rank() >= need.rank() && need.Valid() }

func (r Role) rank() int {
	switch r {
	case Viewer:
		return 1
	case Developer:
		return 2
	case Owner:
		return 3
	}
	return 0
}
