package apikey

import (
	"testing"
	"time"
)

func TestNewRequest(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	seen := map[string]string{}
	for name, r := range map[string]Request{
		"one":             NewRequest("ada", "shop", "form-1", at),
		"another name":    NewRequest("ada", "shop", "form-2", at),
		"another caller":  NewRequest("bob", "shop", "form-1", at),
		"another project": NewRequest("ada", "bank", "form-1", at),
	} {
		if len(r.ID) != 64 || !r.At.Equal(at) {
			t.Errorf("%s: %+v", name, r)
		}
		if other, taken := seen[r.ID]; taken {
			t.Errorf("%s is the same request as %s", name, other)
		}
		seen[r.ID] = name
	}
	if r := NewRequest("ada", "shop", "form-1", at.Add(time.Hour)); seen[r.ID] != "one" {
		t.Error("an hour later it is not known again")
	}
	if r := NewRequest("ada", "shop", "", at); r.ID != "" {
		t.Errorf("without a name it is %s", r.ID)
	}
}
