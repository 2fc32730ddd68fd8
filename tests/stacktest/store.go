package stacktest

import (
	"context"
	"testing"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluicegate/sluice/emulators/stack"
)

// Store opens the stack's document store, past all functions, and closes it when the
// test ends. It is opened as the owner: the store's rules let nobody else in.
func Store(t testing.TB, s *stack.Stack) *firestore.Client {
	t.Helper()
	info := s.Info()
	conn, err := grpc.NewClient("passthrough:///"+info.FirestoreEmulatorHost,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}))
	if err != nil {
		t.Fatal(err)
	}
	c, err := firestore.NewClient(t.Context(), info.Project, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// owner is how the emulator knows the owner of a project.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }
