package httpapi

import "testing"

// TestBodiesAreShared: no sender takes all the room, and released memory can be used again.
func TestBodiesAreShared(t *testing.T) {
	t.Parallel()
	b := NewBodies(BodyQuota{All: 400, Share: 100})
	if _, ok := b.take("a", 100); !ok {
		t.Fatal("no room at all")
	}
	if _, ok := b.take("a", 1); ok {
		t.Error("one sender takes more than its share")
	}
	for _, sender := range []string{"b", "c", "d"} {
		if _, ok := b.take(sender, 100); !ok {
			t.Errorf("no room for %s", sender)
		}
	}
	freed, ok := b.take("e", 1)
	if ok {
		t.Error("more is held than the quota")
	}
	b.give("a", 100)
	<-freed
	if _, ok := b.take("e", 1); !ok || len(b.shares) != 4 {
		t.Errorf("the released memory is not free: %v", b.shares)
	}
}
