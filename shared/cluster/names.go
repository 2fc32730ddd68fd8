package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
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

// owned is what Sluice writes of an object of an app. seen is the object as it was when
// looked at, of whose version it must still be; nil where there was none.
func owned[T any, P object[T]](ref app.Ref, name string, spec map[string]any, seen P) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetNamespace(ref.Namespace)
	u.SetName(name)
	u.SetLabels(labels(ref.Name))
	if seen != nil {
		u.SetResourceVersion(seen.GetResourceVersion())
	}
	if adopted(seen) {
		u.SetAnnotations(map[string]string{adoptedAnnotation: "true"})
	}
	return u
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
// Service, e.g. "sluice-host-hello-5d41402abc".
func hostName(ref app.Ref) string { return middlewareName("host", ref) }

// stripName is the name of the Middleware that removes identity headers on the route of an
// app without a gate.
func stripName(ref app.Ref) string { return middlewareName("strip", ref) }

// gateName is the name of what asks the checker about an app's requests, of a Middleware or
// of what Envoy Gateway has for it, e.g. "sluice-gate-hello-5d41402abc"; preflightName that of the one which does so about
// CORS preflights, and websocketName that of the one which lets WebSockets through. Routes
// that somebody else makes for a gated app name these.
func gateName(ref app.Ref) string      { return middlewareName("gate", ref) }
func preflightName(ref app.Ref) string { return middlewareName("cors", ref) }
func websocketName(ref app.Ref) string { return middlewareName("ws", ref) }

// generationName is the name of the Middleware that one generation of an app's own route
// has in place of gateName, e.g. "sluice-gate-hello-5d41402abc-h5f0qk2m3ys". The ingress may
// still have an earlier route: since that one names another Middleware, its requests do not
// get this generation's proof.
func generationName(g gate) string { return gateName(g.ref) + "-" + g.generation }

// middleware is the name of the Middleware that asks the checker about an app's requests.
func (g gate) middleware() string {
	if g.generation == "" {
		return gateName(g.ref)
	}
	return generationName(g)
}

// generationIn returns the generation in the name of a Middleware, or "".
func generationIn(name string, ref app.Ref) string {
	generation, ok := strings.CutPrefix(name, gateName(ref)+"-")
	if !ok || !checkers.ValidGeneration(generation) {
		return ""
	}
	return generation
}

// middlewareName is one for an app alone, also where Traefik joins namespace and name;
// at most 63 characters.
func middlewareName(what string, ref app.Ref) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return "sluice-" + what + "-" + ref.Name + "-" + hex.EncodeToString(sum[:5])
}
