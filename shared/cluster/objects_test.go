package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if !b.objects().None() {
		t.Fatal("there are objects before the app is placed")
	}
	b.place()
	if !b.state().StripStale {
		t.Error("the route is reported to remove identity headers before its Middleware exists")
	}
	b.must(b.cluster.WriteStrip(t.Context(), b.objects(), b.app.Ref()))
	want := State{Deployment: Right, Service: Right, Route: RouteOpen}
	check.Equal(t, "state", want, b.state())
	o := b.objects()
	for name, fields := range map[string][]metav1.ManagedFieldsEntry{
		"deployment": o.deployment.ManagedFields, "service": o.service.ManagedFields, "route": o.route.GetManagedFields(),
	} {
		if !appliedBySluice(fields) {
			t.Errorf("the %s was not written by server-side apply of %q", name, fieldManager)
		}
	}
	ns, err := b.kube.CoreV1().Namespaces().Get(t.Context(), b.app.Namespace, metav1.GetOptions{})
	b.must(err)
	if ns.Labels[managedByLabel] != fieldManager {
		t.Errorf("namespace labels %v", ns.Labels)
	}
	b.place() // again: nothing changes
	if after := b.objects(); after.route.GetResourceVersion() != o.route.GetResourceVersion() ||
		after.deployment.ResourceVersion != o.deployment.ResourceVersion || after.service.ResourceVersion != o.service.ResourceVersion {
		t.Error("placing an app that is in place has changed an object")
	}
}

func appliedBySluice(fields []metav1.ManagedFieldsEntry) bool {
	for _, f := range fields {
		if f.Manager == fieldManager && f.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}

func TestPlaceWithoutImage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.app.Image, b.app.GitSource = "", &app.GitSource{Repository: "https://git.example/x", Branch: "main"}
	b.place()
	check.Equal(t, "state", State{Deployment: Right, Service: Right, Route: RouteOpen, StripStale: true}, b.state())
	if b.objects().deployment != nil {
		t.Error("there is a deployment without an image")
	}
	b.app.Image = "registry.example/hello:v1"
	if got := b.state().Deployment; got != Absent {
		t.Errorf("deployment is %v once there is an image, want Absent", got)
	}
}

func TestPlaceLeavesTheRouteToWiringOnceAGateIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*app.App){
		"switched on":   func(a *app.App) { a.RequireAPIKey, a.Gate.State = true, app.Pending },
		"being removed": func(a *app.App) { a.Gate.State = app.Releasing },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			change(&b.app)
			b.place()
			if got := b.state(); got.Route != RouteAbsent || got.Service != Right {
				t.Errorf("state %+v, want a service and no route", got)
			}
		})
	}
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := t.Context()
	b.must(b.cluster.EnsureNamespace(ctx, b.app.Namespace))
	three := int32(3)
	_, err := b.kube.AppsV1().Deployments(b.app.Namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "hello", Labels: map[string]string{"team": "web"}, Annotations: map[string]string{"sluice.dev/adopt": "true"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &three,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"run": "hello"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"run": "hello", "tier": "front"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "web", Image: "old:1", Env: []corev1.EnvVar{{Name: "COLOR", Value: "green"}, {Name: "PORT", Value: "1"}}},
					{Name: "sidecar", Image: "sidecar:1"},
				}},
			},
		},
	}, metav1.CreateOptions{FieldManager: "kubectl"})
	b.must(err)
	routes := b.cluster.objects(traefikKind("IngressRoute"), b.app.Namespace)
	route := owned(b.app.Ref(), b.app.Name, map[string]any{
		"entryPoints": []any{"other"}, "routes": []any{map[string]any{"match": "PathPrefix(`/`)", "kind": "Rule"}},
		"tls": map[string]any{"secretName": "theirs"},
	}, b.objects().route)
	route.SetGroupVersionKind(routes.kind)
	_, err = routes.api.Create(ctx, route, metav1.CreateOptions{FieldManager: "kubectl"})
	b.must(err)

	b.place()
	check.Equal(t, "state", State{Deployment: Right, Service: Right, Route: RouteOpen, StripStale: true}, b.state())
	d := b.objects().deployment
	if got := *d.Spec.Replicas; got != 3 {
		t.Errorf("%d replicas, want theirs, 3", got)
	}
	if d.Labels["team"] != "web" || d.Spec.Template.Labels["tier"] != "front" {
		t.Error("labels of theirs are gone")
	}
	got := map[string]string{}
	for _, c := range d.Spec.Template.Spec.Containers {
		got[c.Name] = c.Image
	}
	check.Equal(t, "containers", map[string]string{"web": b.app.Image, "sidecar": "sidecar:1"}, got)
	if env := d.Spec.Template.Spec.Containers[0].Env; len(env) != 2 || env[0].Value != "green" || env[1].Value != "8080" {
		t.Errorf("environment %v, want theirs and PORT=8080", env)
	}
	spec, _ := b.objects().route.Object["spec"].(map[string]any)
	check.Equal(t, "tls of the route", map[string]any{"secretName": "theirs"}, spec["tls"])
}

// makeForeign makes a Deployment and a Service of the app's name, as somebody else would.
func (b *bench) makeForeign(labels, annotations map[string]string) {
	b.Helper()
	ctx, meta := b.Context(), metav1.ObjectMeta{Name: b.app.Name, Labels: labels, Annotations: annotations}
	by := metav1.CreateOptions{FieldManager: "kubectl"}
	b.must(b.cluster.EnsureNamespace(ctx, b.app.Namespace))
	pod := map[string]string{"run": "hello"}
	_, err := b.kube.AppsV1().Deployments(b.app.Namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: pod},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: pod},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "hello", Image: "theirs:1"}}},
		},
	}}, by)
	b.must(err)
	_, err = b.kube.CoreV1().Services(b.app.Namespace).Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: pod, Ports: []corev1.ServicePort{{Port: 8080}},
	}}, by)
	b.must(err)
}

// TestForeignObjects: objects of the app's name that nobody allowed to adopt are neither
// changed nor deleted.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeForeign(map[string]string{"team": "web"}, map[string]string{"sluice.dev/adopt": "no"})
	before := b.objects()
	ctx, ref := t.Context(), b.app.Ref()
	for name, err := range map[string]error{
		"look":             before.Taken(ref),
		"apply":            b.cluster.Apply(ctx, before, b.app),
		"apply Deployment": b.cluster.ApplyDeployment(ctx, before, b.app),
		"apply workload":   b.cluster.ApplyWorkload(ctx, before.Workload, b.app),
	} {
		if reason, refused := Refusal(err); !problem.Is(err, problem.NameTaken) || !refused || reason == "" {
			t.Errorf("%s: %v, want name_taken", name, err)
		}
	}
	if !before.None() {
		t.Error("the app is reported to have objects")
	}
	b.must(b.cluster.Delete(ctx, ref))
	b.must(b.cluster.RemoveWorkload(ctx, ref))
	after := b.objects()
	if diff := cmp.Diff([]any{before.deployment, before.service}, []any{after.deployment, after.service}); diff != "" {
		t.Errorf("foreign objects changed (-before +after):\n%s", diff)
	}
}

// TestForeignRoute: neither is a route of the app's name.
func TestForeignRoute(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(b.cluster.EnsureNamespace(t.Context(), b.app.Namespace))
	b.make("{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: hello}, spec: {routes: [{kind: Rule, match: Host(`a.example`), services: [{name: other, port: 1}]}]}}")
	o := b.objects()
	if err := b.cluster.ApplyRoute(t.Context(), o, b.app, false); !problem.Is(err, problem.NameTaken) || !problem.Is(o.Taken(b.app.Ref()), problem.NameTaken) {
		t.Errorf("%v, want name_taken", err)
	}
	b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
	if b.objects().route == nil {
		t.Error("somebody else's route was deleted")
	}
}

// TestAdoptedObjectsStay: an adopted object outlives its app. So does one that an earlier
// release adopted, which left no mark.
func TestAdoptedObjectsStay(t *testing.T) {
	t.Parallel()
	for name, earlier := range map[string]bool{"adopted": false, "adopted by an earlier release": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if earlier {
				b.makeForeign(labels("hello"), nil)
			} else {
				b.makeForeign(nil, map[string]string{"sluice.dev/adopt": "true"})
			}
			b.place()
			if o := b.objects(); o.Taken(b.app.Ref()) != nil || !adopted(o.deployment) || !adopted(o.service) || adopted(o.route) {
				t.Errorf("adopted: Deployment %t, Service %t, route %t; %v", adopted(o.deployment), adopted(o.service), adopted(o.route), o.Taken(b.app.Ref()))
			}
			b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
			o := b.objects()
			if o.deployment == nil || o.service == nil || o.route != nil || !o.None() {
				t.Fatalf("left: Deployment %t, Service %t, route %t", o.deployment != nil, o.service != nil, o.route != nil)
			}
			if o.deployment.Annotations[adoptedAnnotation] != "true" || o.deployment.Spec.Template.Spec.Containers[0].Image != b.app.Image {
				t.Errorf("the Deployment left: %+v", o.deployment)
			}
		})
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.place()
	b.gate()
	b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
	if !b.objects().None() {
		t.Error("objects are left")
	}
	b.must(b.cluster.Delete(t.Context(), b.app.Ref())) // nothing to do is fine
}

func TestRemoveSparesAReplacement(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.place()
	old := b.objects()
	b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
	b.place()
	if err := b.cluster.remove(t.Context(), old, b.app.Ref()); !problem.Is(err, problem.Conflict) {
		t.Errorf("removing objects that were replaced: %v, want conflict", err)
	}
	if got := b.state(); got.Route != RouteOpen {
		t.Errorf("the new route is %v", got.Route)
	}
}

func TestEnsureNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(b.cluster.EnsureNamespace(t.Context(), b.app.Namespace))
	b.must(b.cluster.EnsureNamespace(t.Context(), b.app.Namespace))
	// No controller runs here that would finish this deletion.
	b.must(b.kube.CoreV1().Namespaces().Delete(t.Context(), b.app.Namespace, metav1.DeleteOptions{}))
	if err := b.cluster.EnsureNamespace(t.Context(), b.app.Namespace); !problem.Is(err, problem.Unavailable) {
		t.Errorf("a namespace that is being deleted: %v, want unavailable", err)
	}
}

func TestUnreachableCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, err := Open(Options{Kubeconfig: unreachable(t), Routes: &Routes{EntryPoints: []string{"web"}}})
	b.must(err)
	if _, err := c.Objects(t.Context(), b.app.Ref()); !problem.Is(err, problem.Unavailable) {
		t.Errorf("objects: %v, want unavailable", err)
	}
	if err := c.EnsureNamespace(t.Context(), "x"); !problem.Is(err, problem.Unavailable) {
		t.Errorf("namespace: %v, want unavailable", err)
	}
}
