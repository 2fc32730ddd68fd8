package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	cloudfirestore "cloud.google.com/go/firestore"
	apiv1 "cloud.google.com/go/firestore/apiv1"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/sluicegate/sluice/emulators/firestore"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/bench/load"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

// coldStart compares the duration of a checker's start with the time to receive the same
// documents. It uses 100,000 keys, because the emulator does not support 1,000,000.
func (b *bench) coldStart(t *testing.T) {
	t.Helper()
	program := b.build(t, "./tests/bench/target")
	growth := plot{title: "Time from process start to readiness, on the emulator", unit: "s"}
	for _, n := range sizes()[:3] {
		t.Run(fmt.Sprintf("keys=%d", n), func(t *testing.T) {
			emulator, err := firestore.Start(t.Context(), firestore.Options{})
			check.OK(t, err)
			t.Cleanup(func() { _ = emulator.Close() })
			t.Setenv("FIRESTORE_EMULATOR_HOST", emulator.Host)
			fill(t, n)
			var received, ready []float64
			for range 3 {
				began := time.Now()
				receive(t, emulator.Host, n)
				received = append(received, time.Since(began).Seconds())
				whole := t.Run("start", func(t *testing.T) {
					began := time.Now()
					start(t, program, "/readyz", "ROLE=checker", "STORE="+project)
					ready = append(ready, time.Since(began).Seconds())
				})
				if !whole {
					return
				}
			}
			growth.points = append(growth.points, point{n, median(ready)})
			if n == 100_000 {
				by := shares(ready, received)
				b.row("cold start to readiness with 100,000 keys, divided by the time to receive them",
					spread("%.2f", by)+fmt.Sprintf(": %.1f / %.1f s", median(ready), median(received)), "1.3", within(by, 1.3))
			}
		})
	}
	b.plots = append(b.plots, growth)
}

const project = "bench"

func fill(t *testing.T, n int) {
	t.Helper()
	st, err := store.Open(t.Context(), project)
	check.OK(t, err)
	defer func() { _ = st.Close() }()
	check.OK(t, errors.Join(
		st.CreateProject(t.Context(), app.Project{Name: "shop"}),
		st.CreateEnvironment(t.Context(), app.Environment{Project: "shop", Name: "prod", Namespace: load.Namespace}),
		st.CreateApp(t.Context(), app.App{Namespace: load.Namespace, Name: load.App, Project: "shop", Environment: "prod", Host: "hello.example", Image: stacktest.Image}, store.InitialState{}),
	))
	if _, err := st.CreatePlan(t.Context(), load.Plan()); err != nil {
		t.Fatal(err)
	}
	client, err := cloudfirestore.NewClient(t.Context(), project)
	check.OK(t, err)
	defer func() { _ = client.Close() }()
	// The other keys are copies of a stored one.
	var model map[string]any
	keys := client.Collection("keys")
	batch := client.BulkWriter(t.Context())
	var jobs []*cloudfirestore.BulkWriterJob
	for k := range load.Keys(n) {
		if model == nil {
			if _, err := st.IssueKey(t.Context(), k.Stored, apikey.Request{}, 0); err != nil {
				t.Fatal(err)
			}
			first, err := keys.Doc(string(k.Stored.ID())).Get(t.Context())
			check.OK(t, err)
			model = first.Data()
			continue
		}
		model["prefix"], model["secret"], model["name"] = string(k.Stored.Prefix), k.Stored.Secret[:], k.Stored.Name
		job, err := batch.Create(keys.Doc(string(k.Stored.ID())), model)
		check.OK(t, err)
		jobs = append(jobs, job)
	}
	batch.End()
	for _, job := range jobs {
		if _, err := job.Results(); err != nil {
			t.Fatal(err)
		}
	}
}

// receive listens as a checker does, and discards the keys.
func receive(t *testing.T, host string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+host, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	check.OK(t, err)
	client, err := apiv1.NewClient(ctx, option.WithGRPCConn(conn))
	check.OK(t, err)
	defer func() { _ = client.Close() }()
	const database = "projects/" + project + "/databases/(default)"
	stream, err := client.Listen(metadata.AppendToOutgoingContext(ctx, "google-cloud-resource-prefix", database, "authorization", "Bearer owner"))
	check.OK(t, err)
	query := &pb.StructuredQuery{
		From: []*pb.StructuredQuery_CollectionSelector{{CollectionId: "keys"}},
		Where: &pb.StructuredQuery_Filter{FilterType: &pb.StructuredQuery_Filter_FieldFilter{FieldFilter: &pb.StructuredQuery_FieldFilter{
			Field: &pb.StructuredQuery_FieldReference{FieldPath: "status"},
			Op:    pb.StructuredQuery_FieldFilter_NOT_EQUAL,
			Value: &pb.Value{ValueType: &pb.Value_StringValue{StringValue: string(apikey.Revoked)}},
		}}},
	}
	target := &pb.Target_QueryTarget{Parent: database + "/documents", QueryType: &pb.Target_QueryTarget_StructuredQuery{StructuredQuery: query}}
	err = stream.Send(&pb.ListenRequest{Database: database, TargetChange: &pb.ListenRequest_AddTarget{
		AddTarget: &pb.Target{TargetId: 1, TargetType: &pb.Target_Query{Query: target}},
	}})
	for received := 0; err == nil; {
		var res *pb.ListenResponse
		if res, err = stream.Recv(); res.GetDocumentChange() != nil {
			received++
		}
		if res.GetTargetChange().GetTargetChangeType() == pb.TargetChange_CURRENT {
			if received < n {
				err = errors.New("too few documents")
			}
			break
		}
	}
	if err != nil {
		t.Fatalf("receive %d keys: %v", n, err)
	}
}
