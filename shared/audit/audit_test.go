package audit

import (
	"fmt"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name             string
		before, after    Values
		wantOld, wantNew Values
	}{
		{"made", nil, Values{"rate": 1.0}, nil, Values{"rate": 1.0}},
		{"deleted", Values{"rate": 1.0}, nil, Values{"rate": 1.0}, nil},
		{"one field", Values{"rate": 1.0, "burst": 5}, Values{"rate": 2.0, "burst": 5}, Values{"rate": 1.0}, Values{"rate": 2.0}},
		{"a list", Values{"apps": []string{"a"}}, Values{"apps": []string{"a", "b"}}, Values{"apps": []string{"a"}}, Values{"apps": []string{"a", "b"}}},
		{"something set", Values{"quota": nil}, Values{"quota": 5}, Values{"quota": nil}, Values{"quota": 5}},
		{"a field more", Values{}, Values{"a": 1}, Values{"a": nil}, Values{"a": 1}},
		{"a field less", Values{"a": 1}, Values{}, Values{"a": 1}, Values{"a": nil}},
		{"nothing", Values{"apps": []string{"a"}}, Values{"apps": []string{"a"}}, Values{}, Values{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			from, to := Diff(tt.before, tt.after)
			check.Equal(t, "old and new", []Values{tt.wantOld, tt.wantNew}, []Values{from, to})
		})
	}
}

func ExampleWithin() {
	fmt.Println(Within("projects/shop/api-keys/key-ab12cd34"))
	// Output: [projects projects/shop projects/shop/api-keys projects/shop/api-keys/key-ab12cd34]
}

// TestKindsOfActions verifies that each action of an environment has one kind.
func TestKindsOfActions(t *testing.T) {
	t.Parallel()
	seen := map[Action]bool{}
	for _, k := range Kinds() {
		for _, a := range k.Actions() {
			if seen[a] || a.OfInstallation() {
				t.Errorf("%s: got a second kind %s", a, k)
			}
			seen[a] = true
		}
	}
	for _, a := range Actions() {
		project := a == UpdateProject || a == SetMembers || a == CreateToken || a == RevokeToken || a == LeakToken || a == ExplainRequest
		if !seen[a] && !a.OfInstallation() && !project {
			t.Errorf("%s: got no kind", a)
		}
	}
}
