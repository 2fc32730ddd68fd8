package hook

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestResultOf(t *testing.T) {
	t.Parallel()
	of := func(code problem.Code) error { return problem.FromCode(code) }
	tests := []struct {
		action Action
		fresh  bool
		err    error
		want   Result
	}{
		{Deploy, true, nil, Deployed},
		{Build, true, nil, Building},
		{Ignore, true, nil, Ignored},
		{Pong, true, nil, Ponged},
		{Deploy, false, nil, Replayed},
		{"", false, of(problem.InvalidToken), Unproven},
		{"", false, of(problem.RateLimited), Throttled},
		{"", false, of(problem.ImageRequired), Refused},
		{"", false, of(problem.Conflict), Refused},
		{"", false, of(problem.BodyTooLarge), Refused},
		{"", false, of(problem.Unavailable), Broken},
		{"", false, errors.New("anything"), Broken},
	}
	seen := map[Result]bool{}
	for _, tt := range tests {
		got := ResultOf(StoredResponse{Action: tt.action}, tt.fresh, tt.err)
		if got != tt.want {
			t.Errorf("%s, fresh %v, %v: %s, want %s", tt.action, tt.fresh, tt.err, got, tt.want)
		}
		seen[got] = true
	}
	for _, r := range Results() {
		if !seen[r] {
			t.Errorf("no call has the result %s", r)
		}
		if want := r == "deployed" || r == "building"; r.Changes() != want {
			t.Errorf("%s: got changes %v", r, r.Changes())
		}
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	got := Receipt{
		Delivery: "72d3162e\r\n\x1b[31m" + strings.Repeat("x", 1000), Event: "pu\u202esh\x00", Commit: "9fceb02\n",
		Reason: "Only push events trigger a deployment.", RequestID: "r-1",
	}.Bounded()
	want := Receipt{
		Delivery: "72d3162e???[31m" + strings.Repeat("x", 113), Event: "pu?sh?", Commit: "9fceb02?",
		Reason: "Only push events trigger a deployment.", RequestID: "r-1",
	}
	check.Equal(t, "bounded", want, got)
	for _, cut := range []string{strings.Repeat("é", 100), strings.Repeat("€", 100), "\xff\xfe" + strings.Repeat("\x80", 200)} {
		if d := (Receipt{Delivery: cut}).Bounded().Delivery; strings.Trim(d, "?") != "" || len(d) > maxDelivery {
			t.Errorf("%q: got %q", cut, d)
		}
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	const token = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	c, ok := ClaimOf(map[string][]string{SignatureHeader: {Sign(token, []byte("body"))}})
	if !ok || c.CarriesToken() || !c.Proves(token, []byte("body")) || c.Proves(token, []byte("other")) {
		t.Error("the signature is rejected, or accepted for another body")
	}
}
