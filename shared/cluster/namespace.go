package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

// EnsureNamespace creates an environment's namespace if it does not exist, and grants Sluice's
// functions their rights in it. It returns an unavailable problem if the namespace is being deleted,
// or if the calling function lacks the rights; the wiring function then creates the namespace.
//
// Namespaces are never deleted: they may contain volumes and other objects.
func (c *Cluster) EnsureNamespace(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	existing, err := c.namespaces().find(ctx, name)
	if err != nil {
		return err
	}
	if existing != nil && existing.Status.Phase == corev1.NamespaceTerminating {
		return fmt.Errorf("namespace %s is being deleted: %w", name, problem.FromCode(problem.Unavailable))
	}
	if existing == nil {
		_, err = c.namespaces().write(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: managed()}})
		if lacksRight(err) {
			return problem.FromCode(problem.Unavailable).WithCause(err)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return c.grant(ctx, name)
}

// NamespaceExists reports whether a namespace exists, even if it is being deleted.
func (c *Cluster) NamespaceExists(ctx context.Context, name string) (bool, error) {
	existing, err := c.namespaces().find(ctx, name)
	return existing != nil, err
}

const (
	grantPatience = 5 * time.Second
	grantInterval = 20 * time.Millisecond

	roleKind = "ClusterRole"
)

// grantees returns the service accounts that get rights. The functions that grant them come last:
// once they have their own rights, the others also have theirs.
func grantees() []string { return []string{"builds", "deploys", "wiring", "apps"} }

func grantName(function string) string { return fieldManager + "-" + function + "-environment" }

// grant grants Sluice's functions their rights in an environment's namespace, and waits until this
// process has its own rights. An admission policy (infra/chart/templates/rbac) limits the rights and
// the namespaces. grant returns an unavailable problem if the policy rejects the grant.
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
			return problem.FromCode(problem.Unavailable).WithCause(err)
		case err != nil && !apierrors.IsAlreadyExists(err):
			return err
		}
	}
	return c.waitGranted(ctx, namespace)
}

// RestoreGrants creates the missing RoleBindings of Sluice's functions in namespaces of environments,
// and returns them. It skips namespaces that do not exist or are being deleted.
func (c *Cluster) RestoreGrants(ctx context.Context, namespaces iter.Seq[string]) (restored []app.Ref, err error) {
	if c.system == "" {
		return nil, nil
	}
	existing, err := allByRef(ctx, c.roleBindings(""), "")
	if err != nil {
		return nil, err
	}
	var failed []error
	for namespace := range namespaces {
		for _, function := range grantees() {
			ref := app.Ref{Namespace: namespace, Name: grantName(function)}
			if existing[ref] != nil {
				continue
			}
			_, err := c.roleBindings(namespace).write(ctx, c.binding(function))
			switch {
			case err == nil:
				restored = append(restored, ref)
			case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			default:
				failed = append(failed, err)
			}
		}
	}
	return restored, errors.Join(failed...)
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
			return fmt.Errorf("wait for rights in namespace %s: %w", namespace, problem.FromCode(problem.Unavailable).WithCause(context.Cause(ctx)))
		}
	}
}

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

// lacksRight reports whether a call failed for lack of rights. Other failures, e.g. because of a
// quota, are also Forbidden; only the message distinguishes them: `… is forbidden: User "…" cannot
// patch resource "…" …`.
func lacksRight(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !apierrors.IsForbidden(err) {
		return false
	}
	_, user, found := strings.Cut(answer.Status().Message, " is forbidden: User ")
	return found && strings.Contains(user, " cannot ")
}
