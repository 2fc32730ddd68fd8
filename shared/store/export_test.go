package store

import (
	"context"
	"os"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// OpenIntercepted opens a store on the emulator whose streams go through a function.
func OpenIntercepted(ctx context.Context, project string, through grpc.StreamClientInterceptor) (*Store, error) {
	conn, err := grpc.NewClient("passthrough:///"+os.Getenv(emulatorVariable), grpc.WithStreamInterceptor(through),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(emulatorOwner{}))
	if err != nil {
		return nil, err
	}
	client, err := firestore.NewClient(ctx, project, option.WithGRPCConn(conn))
	if err != nil {
		return nil, err
	}
	return &Store{client: client, now: time.Now}, nil
}
