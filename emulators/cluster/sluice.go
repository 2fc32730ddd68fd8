package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/emulators/kube/manifest"
)

// installSluice installs Sluice's chart, tells Tekton where its events go
// and waits until everything is ready.
func (c *Cluster) installSluice(ctx context.Context) error {
	chart := filepath.Join(c.Root, "infra", "chart")
	if err := c.makeNamespace(ctx); err != nil {
		return err
	}
	_, err := manifest.RunHelm(ctx, c.Root, "upgrade", "--install", "sluice", chart, "--namespace", systemNamespace, "--kubeconfig", c.kubeconfig(),
		"--values", filepath.Join(c.Root, "emulators", "cluster", "values.yaml"), "--set", "images.tag="+c.tag)
	if err != nil {
		return err
	}
	if err := c.sendEvents(ctx); err != nil {
		return err
	}
	if err := deploymentsReady(ctx, c.client, readyLimit); err != nil {
		return err
	}
	return c.functionsReady(ctx)
}

// makeNamespace makes the one that Sluice is installed in, with the strictest of
// Kubernetes' pod security standards, which its pods meet.
func (c *Cluster) makeNamespace(ctx context.Context) error {
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: systemNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, meta.CreateOptions{}); err != nil && !kerrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the namespace of Sluice: %w", err)
	}
	return nil
}

// sendEvents has Tekton send its events to the function builds, which knows them by a token.
func (c *Cluster) sendEvents(ctx context.Context) error {
	secret, err := c.client.CoreV1().Secrets(systemNamespace).Get(ctx, "sluice-builds-token", meta.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the token of Tekton's events: %w", err)
	}
	sink := fmt.Sprintf("http://builds.%s.svc.cluster.local/events/%s", systemNamespace, secret.Data["token"])
	patch, err := json.Marshal(object{"data": object{"formats": "tektonv1", "sink": sink}})
	if err != nil {
		return fmt.Errorf("encode where Tekton's events go: %w", err)
	}
	_, err = c.client.CoreV1().ConfigMaps("tekton-pipelines").Patch(ctx, "config-events", types.MergePatchType, patch, meta.PatchOptions{})
	if err != nil {
		return fmt.Errorf("tell Tekton where its events go: %w", err)
	}
	return nil
}

// functionsReady waits until Knative has made all functions ready.
func (c *Cluster) functionsReady(ctx context.Context) error {
	services := c.dynamic.Resource(schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}).Namespace(systemNamespace)
	waiting, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not ready within %v", readyLimit))
	defer cancel()
	err := child.Until(waiting, readyEvery, func() error {
		list, err := services.List(waiting, meta.ListOptions{})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			if why := notReady(s); why != "" {
				return fmt.Errorf("function %s: %s", s.GetName(), why)
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, troubles(context.WithoutCancel(ctx), c.client))
	}
	return nil
}

// notReady says why a Knative Service is not ready, "" of one that is.
func notReady(s unstructured.Unstructured) string {
	conditions, _, err := unstructured.NestedSlice(s.Object, "status", "conditions")
	if err != nil {
		return err.Error()
	}
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		switch {
		case !ok || condition["type"] != "Ready":
		case condition["status"] == "True":
			return ""
		default:
			return fmt.Sprint(condition["reason"], " ", condition["message"])
		}
	}
	return "not looked at yet"
}

// pushFunctions makes the images of Sluice's functions, unless those of the same sources
// are there, and gives their tag.
func (c *Cluster) pushFunctions(ctx context.Context) (tag string, err error) {
	if tag, err = sourceTag(os.DirFS(c.Root)); err != nil {
		return "", err
	}
	// The tag is written last, so one that is there says that all images are.
	const repository = "sluice/wiring"
	if child.Get(ctx, http.DefaultClient, "http://"+at(registryPort)+"/v2/"+repository+"/manifests/"+tag) == nil {
		return tag, nil
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-buildvcs=false", "./scripts/release", "images",
		"--push", at(registryPort)+"/sluice", "--platforms", "linux/"+runtime.GOARCH, "--tag", tag)
	cmd.Dir = c.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make Sluice's images: %w: %s", err, out)
	}
	return tag, nil
}

// sourceTag is a tag for what the functions are made of.
func sourceTag(root fs.FS) (string, error) {
	h := sha256.New()
	for _, place := range []string{"go.mod", "go.sum", "scripts/release", "shared", "functions"} {
		err := fs.WalkDir(root, place, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, file)
			_, _ = fmt.Fprintf(h, "%s %d\n", file, len(text)) // a hash takes everything
			h.Write(text)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read the sources of the functions: %w", err)
		}
	}
	return "src-" + hex.EncodeToString(h.Sum(nil)[:8]), nil
}
