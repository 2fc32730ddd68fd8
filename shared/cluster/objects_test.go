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

func TestAppliedObjectsMatchApp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if !b.objects().None() {
		t.Fatal("the app has objects before Apply")
	}
	b.place()
	if !b.state().StripStale {
		t.Error("StripStale: got false, want true before the Middleware exists")
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
	b.place()
	if after := b.objects(); after.route.GetResourceVersion() != o.route.GetResourceVersion() ||
		after.deployment.ResourceVersion != o.deployment.ResourceVersion || after.service.ResourceVersion != o.service.ResourceVersion {
		t.Error("the second Apply changed an object")
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
		t.Error("an app without an image has a Deployment")
	}
	b.app.Image = "registry.example/hello:v1"
	if got := b.state().Deployment; got != Absent {
		t.Errorf("Deployment with an image: got %v, want Absent", got)
	}
}

func TestPlaceLeavesGatedRouteToWiring(t *testing.T) {
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
				t.Errorf("state: got %+v, want a Service and no route", got)
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
		t.Errorf("replicas: got %d, want 3", got)
	}
	if d.Labels["team"] != "web" || d.Spec.Template.Labels["tier"] != "front" {
		t.Error("labels of others were removed")
	}
	got := map[string]string{}
	for _, c := range d.Spec.Template.Spec.Containers {
		got[c.Name] = c.Image
	}
	check.Equal(t, "containers", map[string]string{"web": b.app.Image, "sidecar": "sidecar:1"}, got)
	if env := d.Spec.Template.Spec.Containers[0].Env; len(env) != 2 || env[0].Value != "green" || env[1].Value != "8080" {
		t.Errorf("environment: got %v, want the existing variables and PORT=8080", env)
	}
	spec, _ := b.objects().route.Object["spec"].(map[string]any)
	check.Equal(t, "tls of the route", map[string]any{"secretName": "theirs"}, spec["tls"])
}

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

func TestForeignObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeForeign(map[string]string{"team": "web"}, map[string]string{"sluice.dev/adopt": "no"})
	before := b.objects()
	ctx, ref := t.Context(), b.app.Ref()
	for name, err := range map[string]error{
		"Taken":            before.Taken(ref),
		"apply":            b.cluster.Apply(ctx, before, b.app),
		"apply Deployment": b.cluster.ApplyDeployment(ctx, before, b.app),
		"apply workload":   b.cluster.ApplyWorkload(ctx, before.Workload, b.app),
	} {
		if reason, refused := Refusal(err); !problem.Is(err, problem.NameTaken) || !refused || reason == "" {
			t.Errorf("%s: %v, want name_taken", name, err)
		}
	}
	if !before.None() {
		t.Error("None: got false, want true")
	}
	b.must(b.cluster.Delete(ctx, ref))
	b.must(b.cluster.RemoveWorkload(ctx, ref))
	after := b.objects()
	if diff := cmp.Diff([]any{before.deployment, before.service}, []any{after.deployment, after.service}); diff != "" {
		t.Errorf("foreign objects changed (-before +after):\n%s", diff)
	}
}

func TestForeignRoute(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(b.cluster.EnsureNamespace(t.Context(), b.app.Namespace))
	b.make("{apiVersion: traefik.io/v1alpha1, kind: IngressRoute, metadata: {name: hello}, spec: {routes: [{kind: Rule, match: Host(`a.example`), services: [{name: other, port: 1}]}]}}")
	o := b.objects()
	if err := b.cluster.ApplyRoute(t.Context(), o, b.app, false); !problem.Is(err, problem.NameTaken) || !problem.Is(o.Taken(b.app.Ref()), problem.NameTaken) {
		t.Errorf("got %v, want name_taken", err)
	}
	b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
	if b.objects().route == nil {
		t.Error("the foreign route was deleted")
	}
}

// TestAdoptedObjectsStay tests that an adopted object outlives its app, even without the annotation,
// which earlier releases did not set.
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
				t.Fatalf("remaining: Deployment %t, Service %t, route %t", o.deployment != nil, o.service != nil, o.route != nil)
			}
			if o.deployment.Annotations[adoptedAnnotation] != "true" || o.deployment.Spec.Template.Spec.Containers[0].Image != b.app.Image {
				t.Errorf("remaining Deployment: %+v", o.deployment)
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
		t.Error("objects remain after deletion")
	}
	b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
}

func TestRemoveSparesAReplacement(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.place()
	old := b.objects()
	b.must(b.cluster.Delete(t.Context(), b.app.Ref()))
	b.place()
	if err := b.cluster.remove(t.Context(), old, b.app.Ref()); !problem.Is(err, problem.Conflict) {
		t.Errorf("remove replaced objects: got %v, want conflict", err)
	}
	if got := b.state(); got.Route != RouteOpen {
		t.Errorf("new route: got %v", got.Route)
	}
}

func TestEnsureNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(b.cluster.EnsureNamespace(t.Context(), b.app.Namespace))
	b.must(b.cluster.EnsureNamespace(t.Context(), b.app.Namespace))
	// No controller completes this deletion.
	b.must(b.kube.CoreV1().Namespaces().Delete(t.Context(), b.app.Namespace, metav1.DeleteOptions{}))
	if err := b.cluster.EnsureNamespace(t.Context(), b.app.Namespace); !problem.Is(err, problem.Unavailable) {
		t.Errorf("namespace in deletion: got %v, want unavailable", err)
	}
}

func TestUnreachableCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, err := Open(Options{Kubeconfig: unreachable(t), Routes: &Routes{EntryPoints: []string{"web"}}})
	b.must(err)
	if _, err := c.Objects(t.Context(), b.app.Ref()); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Objects: got %v, want unavailable", err)
	}
	if err := c.EnsureNamespace(t.Context(), "x"); !problem.Is(err, problem.Unavailable) {
		t.Errorf("EnsureNamespace: got %v, want unavailable", err)
	}
}
