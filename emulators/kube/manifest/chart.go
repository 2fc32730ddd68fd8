package manifest

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Namespace is the chart's namespace.
const Namespace = "sluice-system"

const chartDir = "infra/chart"

// kubeVersion is the cluster version for rendering.
const kubeVersion = "v1.36.0"

// Chart returns the objects of "helm template" in the same order. args are "--values FILE" and
// "--set NAME=VALUE". Secrets are new each time.
func Chart(root string, args ...string) ([]*unstructured.Unstructured, error) {
	out, err := render(filepath.Join(root, chartDir), args)
	if err != nil {
		return nil, fmt.Errorf("render the chart: %w", err)
	}
	return Decode([]byte(out))
}

func render(dir string, args []string) (string, error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return "", err
	}
	set, err := values(args)
	if err != nil {
		return "", err
	}
	if err := chartutil.ProcessDependencies(chart, set); err != nil {
		return "", err
	}
	version, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		return "", err
	}
	if !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, version.String()) {
		return "", fmt.Errorf("chart requires Kubernetes %s, not %s", chart.Metadata.KubeVersion, version)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	release := common.ReleaseOptions{Name: "sluice", Namespace: Namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, set, release, capabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, m := range manifests {
		out.WriteString("---\n" + m.Content + "\n")
	}
	for _, h := range hooks {
		out.WriteString("---\n" + h.Manifest + "\n")
	}
	return out.String(), nil
}

func values(args []string) (map[string]any, error) {
	flags := pflag.NewFlagSet("chart", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	files := flags.StringArray("values", nil, "YAML file of values")
	sets := flags.StringArray("set", nil, "one value")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	merged := map[string]any{}
	for _, file := range *files {
		more, err := common.ReadValuesFile(file)
		if err != nil {
			return nil, fmt.Errorf("read values %s: %w", file, err)
		}
		merged = loader.MergeMaps(merged, more)
	}
	for _, set := range *sets {
		if err := strvals.ParseInto(set, merged); err != nil {
			return nil, fmt.Errorf("set %s: %w", set, err)
		}
	}
	return merged, nil
}

// OfKinds returns the objects of the given kinds.
func OfKinds(all []*unstructured.Unstructured, kinds ...string) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(all), func(o *unstructured.Unstructured) bool {
		return !slices.Contains(kinds, o.GetKind())
	})
}
