package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/tests/check"
)

func TestShapes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	quota, period, mode, day := int64(1000), "day", "hard", "2026-03-14"
	key := Key{
		ID: "key-ab12cd34", Prefix: "ab12cd34", Project: "shop", Environment: "prod", Plan: "plan-starter", Name: "ci",
		Apps: []string{"hello"}, Tags: []string{"batch"}, Status: "active", ExpiresAt: &at, CreatedAt: at, CreatedBy: "ada", PreviousSecretExpiresAt: &at,
		LastSeen: &day,
	}
	const keyJSON = `"id":"key-ab12cd34","prefix":"ab12cd34","project":"shop","environment":"prod","plan":"plan-starter","name":"ci",` +
		`"apps":["hello"],"scope":"","tags":["batch"],"status":"active","expires_at":"2026-03-14T12:00:00Z","created_at":"2026-03-14T12:00:00Z","created_by":"ada",` +
		`"previous_secret_expires_at":"2026-03-14T12:00:00Z","revoked_at":null,"revoked_by":null,"last_seen":"2026-03-14","leak":null,"usage":null,"in_force":null`
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"key", key, `{` + keyJSON + `}`},
		{"issued key", IssuedKey{Key: key, FullKey: "sluice_…"}, `{` + keyJSON + `,"key":"sluice_…"}`},
		{
			"key without options",
			Key{ID: "key-ab12cd34", Apps: []string{}, Tags: []string{}, CreatedAt: at},
			`{"id":"key-ab12cd34","prefix":"","project":"","environment":"","plan":"","name":"","apps":[],"scope":"","tags":[],"status":"","expires_at":null,` +
				`"created_at":"2026-03-14T12:00:00Z","created_by":"","previous_secret_expires_at":null,"revoked_at":null,"revoked_by":null,"last_seen":null,"leak":null,"usage":null,"in_force":null}`,
		},
		{
			"plan",
			Plan{ID: "plan-starter", Name: "Starter", Rate: 0.5, Burst: 5, Quota: &quota, QuotaPeriod: &period, QuotaMode: &mode},
			`{"id":"plan-starter","name":"Starter","rate":0.5,"burst":5,"quota":1000,"quota_period":"day","quota_mode":"hard","in_force":null}`,
		},
		{
			"plan without quota",
			Plan{ID: "plan-starter", Name: "Starter", Rate: 100000, Burst: 5},
			`{"id":"plan-starter","name":"Starter","rate":100000,"burst":5,"quota":null,"quota_period":null,"quota_mode":null,"in_force":null}`,
		},
		{"list", List[int]{Items: []int{1}, NextPageToken: "x"}, `{"items":[1],"next_page_token":"x"}`},
		{"empty list", List[int]{Items: []int{}}, `{"items":[],"next_page_token":""}`},
		{"error", Error{Code: "invalid_key", Message: "m"}, `{"code":"invalid_key","message":"m"}`},
		{"empty patch of a key", UpdateKey{}, `{}`},
		{
			"patch of a key",
			UpdateKey{Name: Some("n"), Apps: Some([]string{}), ExpiresAt: Null[string](), Status: Some("disabled")},
			`{"name":"n","apps":[],"expires_at":null,"status":"disabled"}`,
		},
		{"patch of a plan", UpdatePlan{Rate: Some(2.5), Quota: Null[int64]()}, `{"rate":2.5,"quota":null}`},
		{"patch of a quota", UpdatePlan{QuotaMode: Null[string]()}, `{"quota_mode":null}`},
		{"creation of a key with nothing", CreateKey{}, `{}`},
		{"rotation with nothing", RotateKey{}, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(tt.in)
			check.OK(t, err)
			check.Equal(t, "JSON", tt.want, string(got))
		})
	}
}

func TestOptional(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		want     UpdateKey
	}{
		{"left out", `{}`, UpdateKey{}},
		{"null", `{"expires_at":null,"apps":null}`, UpdateKey{ExpiresAt: Null[string](), Apps: Null[[]string]()}},
		{"empty values", `{"name":"","apps":[]}`, UpdateKey{Name: Some(""), Apps: Some([]string{})}},
		{"values", `{"name":"n","apps":["a","b"]}`, UpdateKey{Name: Some("n"), Apps: Some([]string{"a", "b"})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got UpdateKey
			check.OK(t, json.Unmarshal([]byte(tt.in), &got))
			check.Equal(t, "decoded", tt.want, got)
		})
	}
	for _, in := range []string{`{"name":1}`, `{"apps":"a"}`, `{"apps":[1]}`, `{"status":{}}`} {
		if err := json.Unmarshal([]byte(in), &UpdateKey{}); err == nil {
			t.Errorf("%s: got no error", in)
		}
	}
}

// FuzzOptional checks that absent fields, nulls and values survive a round trip.
func FuzzOptional(f *testing.F) {
	f.Add(`{"name":"a","apps":null,"expires_at":"2026-01-01T00:00:00Z"}`)
	f.Add(`{"status":null}`)
	f.Add(`{"name":"\ud800"}`)
	f.Fuzz(func(t *testing.T, in string) {
		var once, twice UpdateKey
		if json.Unmarshal([]byte(in), &once) != nil {
			return
		}
		out, err := json.Marshal(once)
		check.OK(t, err)
		if err := json.Unmarshal(out, &twice); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if diff := cmp.Diff(once, twice); diff != "" {
			t.Errorf("%s changed in the round trip (-once +twice):\n%s", in, diff)
		}
		if strings.Count(string(out), `":`) == 0 && once != (UpdateKey{}) {
			t.Errorf("%s: got no fields after encoding", in)
		}
	})
}
