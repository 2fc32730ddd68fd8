package fire

import (
	"testing"

	"cloud.google.com/go/firestore"
	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/sluicegate/sluice/tests/check"
)

func TestIDsInQueries(t *testing.T) {
	t.Parallel()
	conn, err := grpc.NewClient("passthrough:///unused", grpc.WithTransportCredentials(insecure.NewCredentials()))
	check.OK(t, err)
	client, err := firestore.NewClient(t.Context(), "p", option.WithGRPCConn(conn))
	check.OK(t, err)
	check.Closes(t, client)
	builds := (&DB{client: client}).Collection("apps").Doc("shop.hello").Collection("builds")
	all := builds.Where("status", "==", "queued").Where(ID, ">=", "1").Where(ID, "<", "9")
	first, rest := all.OrderBy("at", ID).Limit(2), all.OrderByDesc("at", ID).After("noon", "2")
	for _, test := range []struct {
		q, plain firestore.Query
	}{
		{first.query, ordered(client, firestore.Asc).Limit(2)},
		{rest.query, ordered(client, firestore.Desc).StartAfter("noon", "2")},
	} {
		if got, want := structured(t, test.q), structured(t, test.plain); !proto.Equal(got, want) {
			t.Errorf("got query %v, want %v", got, want)
		}
	}
}

func ordered(client *firestore.Client, d firestore.Direction) firestore.Query {
	c := client.Collection("apps/shop.hello/builds")
	return c.Where("status", "==", "queued").Where(firestore.DocumentID, ">=", c.Doc("1")).Where(firestore.DocumentID, "<", c.Doc("9")).
		OrderBy("at", d).OrderBy(firestore.DocumentID, d)
}

func structured(t *testing.T, q firestore.Query) *pb.RunQueryRequest {
	t.Helper()
	text, err := q.Serialize()
	check.OK(t, err)
	r := &pb.RunQueryRequest{}
	check.OK(t, proto.Unmarshal(text, r))
	return r
}
