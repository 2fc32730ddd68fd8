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

func (c *Cluster) makeNamespace(ctx context.Context) error {
	namespace := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: systemNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, namespace, meta.CreateOptions{}); err != nil && !kerrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the namespace of Sluice: %w", err)
	}
	return nil
}

// sendEvents sets the receiver of Tekton's events: the function builds, with a token.
func (c *Cluster) sendEvents(ctx context.Context) error {
	secret, err := c.client.CoreV1().Secrets(systemNamespace).Get(ctx, "sluice-builds-token", meta.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the token of Tekton's events: %w", err)
	}
	sink := fmt.Sprintf("http://builds.%s.svc.cluster.local/events/%s", systemNamespace, secret.Data["token"])
	patch, err := json.Marshal(object{"data": object{"formats": "tektonv1", "sink": sink}})
	if err != nil {
		return fmt.Errorf("encode the receiver of Tekton's events: %w", err)
	}
	_, err = c.client.CoreV1().ConfigMaps("tekton-pipelines").Patch(ctx, "config-events", types.MergePatchType, patch, meta.PatchOptions{})
	if err != nil {
		return fmt.Errorf("set the receiver of Tekton's events: %w", err)
	}
	return nil
}

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
			if reason := notReady(s); reason != "" {
				return fmt.Errorf("function %s: %s", s.GetName(), reason)
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, podProblems(context.WithoutCancel(ctx), c.client))
	}
	return nil
}

// notReady returns the reason why a Knative Service is not ready, or "" if it is ready.
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
	return "no status yet"
}

// pushFunctions pushes the images of Sluice's functions, unless images of the same sources
// exist.
func (c *Cluster) pushFunctions(ctx context.Context) (tag string, err error) {
	if tag, err = sourceTag(os.DirFS(c.Root)); err != nil {
		return "", err
	}
	// This image is pushed last: if it exists, all others do.
	const repository = "sluice/wiring"
	if child.Get(ctx, http.DefaultClient, "http://"+at(registryPort)+"/v2/"+repository+"/manifests/"+tag) == nil {
		return tag, nil
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-buildvcs=false", "./scripts/release", "images",
		"--push", at(registryPort)+"/sluice", "--platforms", "linux/"+runtime.GOARCH, "--tag", tag)
	cmd.Dir = c.Root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build Sluice's images: %w: %s", err, out)
	}
	return tag, nil
}

func sourceTag(root fs.FS) (string, error) {
	h := sha256.New()
	for _, place := range []string{"go.mod", "go.sum", "scripts/release", "shared", "functions"} {
		err := fs.WalkDir(root, place, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(root, file)
			_, _ = fmt.Fprintf(h, "%s %d\n", file, len(text)) // a hash never fails
			h.Write(text)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read the sources of the functions: %w", err)
		}
	}
	return "src-" + hex.EncodeToString(h.Sum(nil)[:8]), nil
}
