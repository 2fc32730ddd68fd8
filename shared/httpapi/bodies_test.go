package httpapi

import "testing"

func TestBodiesAreShared(t *testing.T) {
	t.Parallel()
	b := NewBodies(BodyQuota{All: 400, Share: 100})
	if _, ok := b.take("a", 100); !ok {
		t.Fatal("first body: got no memory")
	}
	if _, ok := b.take("a", 1); ok {
		t.Error("one sender got more than its share")
	}
	for _, sender := range []string{"b", "c", "d"} {
		if _, ok := b.take(sender, 100); !ok {
			t.Errorf("sender %s: got no memory", sender)
		}
	}
	freed, ok := b.take("e", 1)
	if ok {
		t.Error("got more memory than the quota")
	}
	b.release("a", 100)
	<-freed
	if _, ok := b.take("e", 1); !ok || len(b.shares) != 4 {
		t.Errorf("after release: got shares %v, want none", b.shares)
	}
}
