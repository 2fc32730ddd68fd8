package app

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
)

// Project is a group of environments with members.
type Project struct {
	Name      string          `firestore:"name"` // DNS label, e.g. "shop"
	Members   map[string]Role `firestore:"members"`
	CreatedAt time.Time       `firestore:"created_at"`

	LeakPolicy apikey.LeakPolicy `firestore:"leak_policy,omitempty"`
	Registries []string          `firestore:"registries,omitempty"` // allowed for images; empty allows all
}

// Owners returns the members with the role owner.
func Owners(members map[string]Role) []string {
	var owners []string
	for name, role := range members {
		if role == Owner {
			owners = append(owners, name)
		}
	}
	return owners
}

// Environment is an environment of a project, with its own keys and plans.
type Environment struct {
	Project   string    `firestore:"project"`
	Name      string    `firestore:"name"`
	Namespace string    `firestore:"namespace"` // unique in the installation
	CreatedAt time.Time `firestore:"created_at"`
}

// Role is the role of a member or service token in a project (promise S1).
type Role string

// The roles, from least to most permissions. Each includes the previous ones.
const (
	Viewer    Role = "viewer"
	Developer Role = "developer" // can deploy and manage apps, keys and plans
	Owner     Role = "owner"     // can manage members and environments
)

// Roles returns all roles, from least to most permissions.
func Roles() []Role { return []Role{Viewer, Developer, Owner} }

// Valid reports whether r is one of [Roles].
func (r Role) Valid() bool { return slices.Contains(Roles(), r) }

// Allows reports whether role r includes role need.
func (r Role) Allows(need Role) bool {
	return need.Valid() && slices.Index(Roles(), r) >= slices.Index(Roles(), need)
}

const (
	maxLabel     = 40 // characters of a project, environment or app name
	maxNamespace = 63 // characters of a Kubernetes namespace
)

// CheckLabel returns an invalid_name problem if s is not a DNS-1123 label of 1 to 40 characters.
// what names the object, e.g. "project".
func CheckLabel(what, s string) error {
	if !ValidLabel(s) {
		return problem.New(problem.InvalidName, "The %s's name must have 1 to %d characters: a-z, 0-9 and hyphens, with a letter or digit at both ends.", what, maxLabel)
	}
	return nil
}

// CheckName returns an invalid_name problem if s is not a valid name for a new app: a label that
// begins with a letter, which Service names require before Kubernetes 1.36. Existing apps can have
// any label.
func CheckName(s string) error {
	if !ValidLabel(s) || s[0] < 'a' || s[0] > 'z' {
		return problem.New(problem.InvalidName, "The app's name must have 1 to %d characters: a-z, 0-9 and hyphens, with a letter first and a letter or digit last.", maxLabel)
	}
	return nil
}

// ValidLabel reports whether s is a DNS-1123 label of 1 to 40 characters.
func ValidLabel(s string) bool { return len(s) <= maxLabel && dnsLabel(s) }

// ValidNamespace reports whether s can be an environment's namespace.
func ValidNamespace(s string) bool { return len(s) <= maxNamespace && dnsLabel(s) }

// Namespace returns "{project}-{environment}" (promise A6). It returns an invalid_name problem if
// that has more than 63 characters.
func Namespace(project, environment string) (string, error) {
	ns := project + "-" + environment
	if len(ns) > maxNamespace {
		return "", problem.New(problem.InvalidName, "The names of the project and the environment must have at most %d characters together. Shorten the environment's name.", maxNamespace-1)
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
