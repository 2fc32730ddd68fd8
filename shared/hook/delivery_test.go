package hook

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/app"
)

func TestNewDelivery(t *testing.T) {
	t.Parallel()
	hello := app.Ref{Namespace: "shop-prod", Name: "hello"}
	one := NewDelivery(hello, "d-1", []byte("body"))
	if diff := cmp.Diff(one, NewDelivery(hello, "d-1", []byte("body"))); diff != "" {
		t.Errorf("the same delivery differs:\n%s", diff)
	}
	if len(one.ID) != 64 || len(one.Body) != 64 {
		t.Errorf("got %+v", one)
	}
	others := map[string]Delivery{
		"another app":         NewDelivery(app.Ref{Namespace: "shop-prod", Name: "other"}, "d-1", []byte("body")),
		"another environment": NewDelivery(app.Ref{Namespace: "shop-test", Name: "hello"}, "d-1", []byte("body")),
		"another id":          NewDelivery(hello, "d-2", []byte("body")),
		"a path for an id":    NewDelivery(hello, "../keys/key-ab12cd34", []byte("body")),
	}
	for name, other := range others {
		if other.ID == one.ID || len(other.ID) != 64 || other.Body != one.Body {
			t.Errorf("%s is %+v", name, other)
		}
	}
	if other := NewDelivery(hello, "d-1", []byte("body ")); other.ID != one.ID || other.Body == one.Body {
		t.Errorf("another body is %+v", other)
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		out  Outcome
		want Answer
	}{
		{"deployed", Outcome{Decision: Decision{Action: Deploy, Image: "a:1", Commit: "9fce"}}, Answer{Action: Deploy, Revision: 7, Image: "a:1", Commit: "9fce"}},
		{"building", Outcome{Decision: Decision{Action: Build, Commit: "9fce"}}, Answer{Action: Build, Build: 7, Commit: "9fce"}},
		{"ignored", Outcome{Decision: Decision{Action: Ignore, Reason: "Because."}}, Answer{Action: Ignore, Reason: "Because."}},
		{"pong", Outcome{Decision: Decision{Action: Pong}}, Answer{Action: Pong}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.out.Answer(7)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
