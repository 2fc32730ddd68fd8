package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/checkers"
)

const (
	managedByLabel = "app.kubernetes.io/managed-by"
	nameLabel      = "app.kubernetes.io/name"
	appLabel       = "sluice.dev/app" // selects an app's pods

	// revisionAnnotation on the pod template is the app's revision, e.g. "3".
	revisionAnnotation = "sluice.dev/revision"

	managedSelector = managedByLabel + "=" + fieldManager
)

func managed() map[string]string { return map[string]string{managedByLabel: fieldManager} }

func labels(name string) map[string]string {
	return map[string]string{managedByLabel: fieldManager, nameLabel: name, appLabel: name}
}

func hasAll(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// owned returns an app's object for a write. The write requires the version of seen, which is nil
// for a new object.
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

func texts(m map[string]string) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}

func hostName(ref app.Ref) string { return middlewareName("host", ref) }

func stripName(ref app.Ref) string { return middlewareName("strip", ref) }

// gateName returns the name of the gate objects that call the checker, e.g.
// "sluice-gate-hello-5d41402abc". preflightName is for CORS preflights. websocketName is for the
// Middleware that restores the Upgrade header of WebSockets. Users can name these objects in their
// own routes to a gated app.
func gateName(ref app.Ref) string      { return middlewareName("gate", ref) }
func preflightName(ref app.Ref) string { return middlewareName("cors", ref) }
func websocketName(ref app.Ref) string { return middlewareName("ws", ref) }

// generationName returns the name of the Middleware in Sluice's own route, e.g.
// "sluice-gate-hello-5d41402abc-h5f0qk2m3ys". It differs for each generation, so a route of an
// earlier generation cannot return the proof.
func generationName(g gate) string { return gateName(g.ref) + "-" + g.generation }

func (g gate) middleware() string {
	if g.generation == "" {
		return gateName(g.ref)
	}
	return generationName(g)
}

func generationIn(name string, ref app.Ref) string {
	generation, ok := strings.CutPrefix(name, gateName(ref)+"-")
	if !ok || !checkers.ValidGeneration(generation) {
		return ""
	}
	return generation
}

// middlewareName returns a name of at most 63 characters. Traefik joins a namespace and a name with
// a hyphen; the hash prevents equal results for different apps.
func middlewareName(what string, ref app.Ref) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return "sluice-" + what + "-" + ref.Name + "-" + hex.EncodeToString(sum[:5])
}
