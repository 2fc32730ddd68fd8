package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/problem"
)

// EnsureNamespace makes an environment's namespace unless it is there, and grants
// Sluice's functions their rights in it ([Options].SystemNamespace). One that is there
// already is used as it is; where rights are granted, its owner must have given it
// Sluice's label. Problem: unavailable, also while the namespace is being deleted, and
// to functions that may make no namespaces: wiring does, soon.
//
// Nothing here deletes a namespace: it can hold volumes and other things that
// Sluice has not made and could not bring back.
func (c *Cluster) EnsureNamespace(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	there, err := c.namespaces().look(ctx, name)
	if err != nil {
		return err
	}
	if there != nil && there.Status.Phase == corev1.NamespaceTerminating {
		return fmt.Errorf("namespace %s is being deleted: %w", name, problem.Of(problem.Unavailable))
	}
	if there == nil {
		_, err = c.namespaces().write(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: managed()}})
		if lacksRight(err) {
			return problem.Of(problem.Unavailable).Because(err)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return c.grant(ctx, name)
}

// NamespaceExists reports whether a namespace exists, also while it is being deleted.
func (c *Cluster) NamespaceExists(ctx context.Context, name string) (bool, error) {
	there, err := c.namespaces().look(ctx, name)
	return there != nil, err
}

const (
	// grantPatience is how long a right that was just granted may take to hold: the
	// API server learns of it through a watch.
	grantPatience = 5 * time.Second
	grantInterval = 20 * time.Millisecond

	roleKind = "ClusterRole"
)

// grantees are the service accounts that have rights in environments' namespaces, in
// the order in which they get them. Whoever grants comes last: if it has its own
// rights, the others were granted before.
func grantees() []string { return []string{"builds", "deploys", "wiring", "apps"} }

// grantName is the ClusterRole with a function's rights in an environment's
// namespace, and the RoleBinding that grants it there, e.g. "sluice-apps-environment".
func grantName(function string) string { return fieldManager + "-" + function + "-environment" }

// grant gives Sluice's functions their rights in an environment's namespace and waits
// until this process has its own. Rights to write are granted nowhere else, so a
// function that is taken over reaches the apps and no more. An admission policy
// (infra/chart/templates/rbac) keeps this from being a way to any other right or into any other
// namespace. Problem: unavailable, also when the namespace is not Sluice's, so that the
// policy refuses.
func (c *Cluster) grant(ctx context.Context, namespace string) error {
	if c.system == "" || namespace == c.system {
		return nil
	}
	allowed, err := c.mayWrite(ctx, namespace)
	if err != nil || allowed {
		return err
	}
	for _, function := range grantees() {
		_, err := c.roleBindings(namespace).write(ctx, c.binding(function))
		switch {
		case apierrors.IsForbidden(err):
			return problem.Of(problem.Unavailable).Because(err)
		case err != nil && !apierrors.IsAlreadyExists(err):
			return err
		}
	}
	return c.waitGranted(ctx, namespace)
}

func (c *Cluster) binding(function string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: grantName(function), Labels: managed()},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: roleKind, Name: grantName(function)},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: c.system, Name: function}},
	}
}

func (c *Cluster) waitGranted(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, grantPatience)
	defer cancel()
	tick := time.NewTicker(grantInterval)
	defer tick.Stop()
	for {
		allowed, err := c.mayWrite(ctx, namespace)
		if err != nil || allowed {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("rights in namespace %s: %w", namespace, problem.Of(problem.Unavailable).Because(context.Cause(ctx)))
		}
	}
}

// mayWrite tells whether this process has its rights in a namespace.
func (c *Cluster) mayWrite(ctx context.Context, namespace string) (bool, error) {
	review, err := c.accessReviews().write(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: "apps", Resource: "deployments",
		}},
	})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// lacksRight tells a denial by the API server's authorizer from other things that it
// forbids, such as exceeding a quota. Both have the reason Forbidden; the authorizer's
// message is of the form `… is forbidden: User "…" cannot patch resource "…" …`.
func lacksRight(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !apierrors.IsForbidden(err) {
		return false
	}
	_, user, found := strings.Cut(answer.Status().Message, " is forbidden: User ")
	return found && strings.Contains(user, " cannot ")
}
