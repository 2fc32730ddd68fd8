package keys

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/plan"
	"github.com/sluicegate/sluice/shared/plan/planwire"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
)

func TestParseExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		in, want string // want: UTC time or problem code
	}{
		{"2026-03-14T12:00:00.000001Z", "2026-03-14T12:00:00.000001Z"},
		{"2026-03-14T07:00:01-05:00", "2026-03-14T12:00:01Z"},
		{"2028-02-29T23:59:59Z", "2028-02-29T23:59:59Z"},
		{"2030-01-01T00:00:00.123456789+05:30", "2029-12-31T18:30:00.123456Z"},
		{"9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999Z"},
		{"2026-03-14T12:00:00Z", "expiry_in_past"},
		{"2026-03-14T12:00:00.000000999Z", "expiry_in_past"}, // now, in microseconds
		{"2026-03-14T12:00:00+00:01", "expiry_in_past"},
		{"0000-01-01T00:00:00Z", "expiry_in_past"},
		{"0001-01-01T00:00:00Z", "expiry_in_past"}, // the zero time
		{"0001-01-01T01:00:00+01:00", "expiry_in_past"},
		{"9999-12-31T23:59:59-00:01", "invalid_expiry"}, // the year 10000
		{"", "invalid_expiry"},
		{"never", "invalid_expiry"},
		{"2027-01-01", "invalid_expiry"},
		{"2027-01-01T00:00:00", "invalid_expiry"},
		{"2027-01-01 00:00:00Z", "invalid_expiry"},
		{"2027-02-29T00:00:00Z", "invalid_expiry"},
		{"2100-02-29T00:00:00Z", "invalid_expiry"},
		{"2027-13-01T00:00:00Z", "invalid_expiry"},
		{"2027-01-01T24:00:00Z", "invalid_expiry"},
		{"2027-01-01T7:00:00Z", "invalid_expiry"},
		{"2027-01-01T00:00:00,5Z", "invalid_expiry"},
		{"2027-01-01T00:00:00+25:00", "invalid_expiry"},
		{"2027-01-01T00:00:00+24:00", "invalid_expiry"},
		{"2027-01-01T00:00:00+00:60", "invalid_expiry"},
		{"2027-01-01T00:00:00+0100", "invalid_expiry"},
		{"2027-01-01T00:00:60Z", "invalid_expiry"}, // a leap second
		{"2027-01-01t00:00:00z", "invalid_expiry"},
		{"2027-01-01T00:00:00Z ", "invalid_expiry"},
		{"10000-01-01T00:00:00Z", "invalid_expiry"},
		{"-2027-01-01T00:00:00Z", "invalid_expiry"},
		{"1790000000", "invalid_expiry"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			at, err := parseExpiry(&tt.in, now)
			got := at.Format(time.RFC3339Nano)
			if err != nil {
				got = string(problem.From(err).Code)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
	if at, err := parseExpiry(nil, now); err != nil || !at.IsZero() {
		t.Errorf("no expiry: got %s, %v", at, err)
	}
}

func FuzzParseExpiry(f *testing.F) {
	for _, s := range []string{"2026-03-14T12:00:01Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "2028-02-29T23:59:59.9+14:00"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, in string) {
		at, err := parseExpiry(&in, now)
		if err != nil {
			if c := problem.From(err).Code; c != problem.InvalidExpiry && c != problem.ExpiryInPast {
				t.Errorf("%q: got %s", in, c)
			}
			return
		}
		if !at.After(now) || at.IsZero() || at.Nanosecond()%1000 != 0 || at.Location() != time.UTC {
			t.Errorf("%q: got %s", in, at)
		}
		out, err := json.Marshal(at)
		var back time.Time
		if err != nil || json.Unmarshal(out, &back) != nil || !back.Equal(at) {
			t.Errorf("%q in JSON: got %s, %v", in, out, err)
		}
	})
}

func FuzzParseGrace(f *testing.F) {
	for _, s := range []string{"24h", "-1s", "0", "1ns", "9223372036854775807ns", "1e3s", "720h0m0.000001s"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, in string) {
		d, err := parseGrace(&in)
		if err != nil {
			return
		}
		k, err := apikey.Key{Secret: apikey.Hash{1}}.Rotate(apikey.Hash{2}, d, now)
		if err == nil && (d < 0 || d > 30*24*time.Hour || k.HasPrevious(now) != (d > 0) || k.HasPrevious(now.Add(d))) {
			t.Errorf("%q: got a previous secret until %s", in, k.PreviousUntil)
		}
	})
}

func FuzzBodies(f *testing.F) {
	for _, s := range []string{
		`{"name":"Starter","rate":10,"burst":20,"quota":5,"quota_period":"day"}`,
		`{"name":"Starter","rate":10,"burst":20,"quota":5,"quota_period":"day","quota_mode":"hard"}`,
		`{"plan":"plan-a","name":"n","apps":["b","a"],"expires_at":"2027-01-01T00:00:00Z","status":"disabled"}`,
		`{"quota":null}`, `{"quota_mode":null}`, `{"rate":1e-400}`, `{"burst":-0}`, `{"apps":null,"plan":null}`, `{"name":"\u0000"}`, `null`, `{}`,
	} {
		f.Add([]byte(s))
	}
	s := &Service{now: func() time.Time { return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) }}
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzzPlan(t, s, body)
		fuzzKey(t, s, body)
	})
}

func fuzzPlan(t *testing.T, s *Service, body []byte) {
	t.Helper()
	var create wire.CreatePlan
	old := plan.Plan{ID: "plan-a", Name: "A", Limits: plan.Limits{Rate: 1, Burst: 1, Quota: 1, Period: plan.Day}}
	if try(t, httpapi.Unmarshal(body, &create)) {
		name, limits, err := planwire.New(create)
		if try(t, err) && (limits.Check() != nil || !plan.ValidID(string(plan.IDFor(name)))) {
			t.Errorf("%s: got plan %q, %+v", body, name, limits)
		}
	}
	var update wire.UpdatePlan
	if try(t, httpapi.Unmarshal(body, &update)) {
		p, err := planwire.Change(old, update, s.changeTime())
		if try(t, err) && (p.ID != old.ID || p.Check() != nil || plan.CheckName(p.Name) != nil) {
			t.Errorf("%s: got plan %+v", body, p)
		}
	}
}

func fuzzKey(t *testing.T, s *Service, body []byte) {
	t.Helper()
	var create wire.CreateKey
	if try(t, httpapi.Unmarshal(body, &create)) {
		k, err := s.newKey(create)
		if try(t, err) {
			sound(t, body, k)
		}
	}
	var update wire.UpdateKey
	old := apikey.Key{Prefix: "ab12cd34", Plan: "plan-a", Status: apikey.Active, Secret: apikey.Hash{1}}
	if try(t, httpapi.Unmarshal(body, &update)) {
		k, err := changeKey(old, update, s.changeTime())
		if try(t, err) {
			sound(t, body, k)
			if k.Prefix != old.Prefix || k.Secret != old.Secret {
				t.Errorf("%s: got another prefix or secret", body)
			}
		}
	}
}

func sound(t *testing.T, body []byte, k apikey.Key) {
	t.Helper()
	_, scope := apikey.Scope(k.Apps)
	if apikey.CheckName(k.Name) != nil || scope != nil || !plan.ValidID(string(k.Plan)) || k.Status == apikey.Revoked {
		t.Errorf("%s: got key %+v", body, k)
	}
}

// try reports whether err is nil. Other errors must have a 4xx status.
func try(t *testing.T, err error) bool {
	t.Helper()
	if err == nil {
		return true
	}
	if s := problem.From(err).Status(); s < 400 || s >= 500 {
		t.Errorf("got status %d: %v", s, err)
	}
	return false
}
