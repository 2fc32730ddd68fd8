package builds

import (
	"context"

	"k8s.io/client-go/dynamic"

	"github.com/sluicegate/sluice/emulators/definitions"
)

// Define applies Tekton's own resource definitions and waits until the API server
// serves them. root is the repository's.
func Define(ctx context.Context, root string, client dynamic.Interface) error {
	return definitions.Define(ctx, root, client, definitions.Tekton())
}
