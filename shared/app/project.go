package app

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
)

// Project groups environments and says who may do what in them.
type Project struct {
	Name      string          `firestore:"name"`    // a DNS label, e.g. "shop"
	Members   map[string]Role `firestore:"members"` // by username
	CreatedAt time.Time       `firestore:"created_at"`

	LeakPolicy apikey.LeakPolicy `firestore:"leak_policy,omitempty"` // for keys of the project
	Registries []string          `firestore:"registries,omitempty"`  // that its apps' images may come from, as package image reads them; empty is any
}

// Environment is a place to run a project's apps, with keys and plans of its own.
type Environment struct {
	Project   string    `firestore:"project"`
	Name      string    `firestore:"name"`      // a DNS label, e.g. "prod"
	Namespace string    `firestore:"namespace"` // "{project}-{environment}", unique in the installation
	CreatedAt time.Time `firestore:"created_at"`
}

// Role is what a member may do in a project (promise S1).
type Role string

// The roles, from least to most.
const (
	Viewer    Role = "viewer"    // reads
	Developer Role = "developer" // also deploys and manages apps, keys and plans
	Owner     Role = "owner"     // also manages members and environments
)

// Roles lists all roles, from least to most: each may do what those before it may.
func Roles() []Role { return []Role{Viewer, Developer, Owner} }

// Valid tells whether r is one of them.
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Allows tells whether a member with role r may do what needs the role need.
func (r Role) Allows(need Role) bool {
	return need.Valid() && slices.Index(Roles(), r) >= slices.Index(Roles(), need)
}

const (
	maxLabel     = 40 // characters of a project's, environment's or app's name
	maxNamespace = 63 // characters of a Kubernetes namespace
)

// CheckLabel refuses what is not a DNS-1123 label of 1 to 40 characters; what
// says whose name it is in the message, e.g. "project". Problem: invalid_name.
func CheckLabel(what, s string) error {
	if !ValidLabel(s) {
		return problem.New(problem.InvalidName, "The %s's name has 1 to %d characters: a-z, 0-9 and hyphens, with a letter or digit at both ends.", what, maxLabel)
	}
	return nil
}

// CheckName refuses what cannot be a new app's name: a label that begins with a
// letter, because the app's Service is called the same, and before Kubernetes 1.36
// no Service's name may begin with a digit. Apps that are there already are
// addressed by any label. Problem: invalid_name.
func CheckName(s string) error {
	if !ValidLabel(s) || s[0] < 'a' || s[0] > 'z' {
		return problem.New(problem.InvalidName, "The app's name has 1 to %d characters: a-z, 0-9 and hyphens, with a letter first and a letter or digit last.", maxLabel)
	}
	return nil
}

// ValidLabel tells whether s is a DNS-1123 label of 1 to 40 characters.
func ValidLabel(s string) bool { return len(s) <= maxLabel && dnsLabel(s) }

// ValidNamespace tells whether s can be an environment's namespace.
func ValidNamespace(s string) bool { return len(s) <= maxNamespace && dnsLabel(s) }

// Namespace is where an environment's apps, keys and plans live:
// "{project}-{environment}" (promise A6). Problem: invalid_name
// when the two together pass 63 characters.
func Namespace(project, environment string) (string, error) {
	ns := project + "-" + environment
	if len(ns) > maxNamespace {
		return "", problem.New(problem.InvalidName, "The project's and the environment's names together have at most %d characters.", maxNamespace-1)
	}
	return ns, nil
}

func dnsLabel(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
