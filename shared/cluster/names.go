package cluster

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluicegate/sluice/shared/app"
)

// Labels and annotations.
const (
	managedByLabel = "app.kubernetes.io/managed-by"
	nameLabel      = "app.kubernetes.io/name"
	appLabel       = "sluice.dev/app" // selects an app's pods

	// revisionAnnotation on the pod template says which deployment of the app the
	// pods are, e.g. "3".
	revisionAnnotation = "sluice.dev/revision"

	managedSelector = managedByLabel + "=" + fieldManager
)

func managed() map[string]string { return map[string]string{managedByLabel: fieldManager} }

func labels(name string) map[string]string {
	return map[string]string{managedByLabel: fieldManager, nameLabel: name, appLabel: name}
}

// hasAll tells whether have holds everything in want.
func hasAll(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// texts gives a map of strings in the form that an unstructured object holds it.
func texts(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}

// hostName is the name of the Middleware that leads an app's requests to its Knative
// Service, at most 63 characters, e.g. "sluice-host-hello-5d41402abc".
func hostName(ref app.Ref) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return "sluice-host-" + ref.Name + "-" + hex.EncodeToString(sum[:5])
}

// gateName is the name of an app's Middleware, at most 63 characters, e.g.
// "sluice-gate-hello-5d41402abc".
func gateName(ref app.Ref) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return "sluice-gate-" + ref.Name + "-" + hex.EncodeToString(sum[:5])
}
