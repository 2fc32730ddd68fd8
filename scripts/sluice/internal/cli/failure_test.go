package cli

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

// TestFailures checks that an error is one line on standard error, or one for each invalid field, and
// checks the exit status.
func TestFailures(t *testing.T) {
	t.Parallel()
	coded := func(status int, code, message string) *answer {
		return &answer{status, `{"code":"` + code + `","message":"` + message + `"}`}
	}
	tests := []struct {
		name   string
		args   string
		answer *answer // to all requests; nil if none must be sent
		exit   int
		stderr string
	}{
		{
			"unauthenticated", "whoami", coded(401, "unauthenticated", "Authentication is required. Sign in or send a valid service token."), 3,
			`error: Authentication is required. Sign in or send a valid service token. Run "sluice login". (unauthenticated)`,
		},
		{
			"not found", "app show nosuch", coded(404, "not_found", "The resource does not exist. Check the name or ID."), 4,
			"error: The resource does not exist. Check the name or ID. (not_found)",
		},
		{
			"conflict", "plan delete plan-starter --yes", coded(409, "plan_in_use", "Keys still use this plan. Revoke them or give them another plan first."), 1,
			"error: Keys still use this plan. Revoke them or give them another plan first. (plan_in_use)",
		},
		{
			"wrong fields", "plan create Starter --rate 0 --burst 0 --quota 5 --quota-period hour", &answer{422, `{"code":"invalid_name","message":"Bad name.","errors":[
				{"field":"name","code":"invalid_name","message":"Bad name."},{"field":"rate","code":"invalid_rate","message":"rate is a number."},
				{"field":"quota_period","code":"invalid_quota","message":"That is no period."}]}`}, 1,
			"error: Bad name. (invalid_name)\nerror: --rate is a number. (invalid_rate)\nerror: --quota-period: That is no period. (invalid_quota)",
		},
		{
			"a wrong field of another name", "key create ci --plan plan-a --expires 2020-01-01",
			&answer{422, `{"code":"expiry_in_past","message":"expires_at is in the past. Use a future time.","errors":[{"field":"expires_at","code":"expiry_in_past","message":"expires_at is in the past. Use a future time."}]}`}, 1,
			"error: --expires is in the past. Use a future time. (expiry_in_past)",
		},
		{
			"internal", "project list", coded(500, "internal", "An internal error occurred. Contact the operator with the X-Request-Id of the response."), 1,
			"error: An internal error occurred. Contact the operator with the X-Request-Id of the response. (internal)",
		},
		{
			"a server that is not Sluice", "project list", &answer{404, "<html>nginx</html>"}, 1,
			"error: The server returned 404 Not Found, which is not a Sluice response. Check the server's URL. (http_404)",
		},
		{
			"a gateway's 502", "project list", &answer{502, "bad gateway"}, 1,
			"error: The server returned 502 Bad Gateway, which is not a Sluice response. Check the server's URL. (http_502)",
		},
		{
			"a response that is not JSON", "project list", &answer{200, "<html>"}, 1,
			"error: GET /projects: read response: invalid character '<' looking for beginning of value (failed)",
		},
		{
			"a message that forges lines", "whoami", coded(409, "conflict", `a\nerror: all is well\u001b[2K\r`), 1,
			"error: a error: all is well\ufffd[2K (conflict)",
		},
		{"mistyped command", "kye list", nil, 2, `error: unknown command "kye" for "sluice"; did you mean "key"? (usage)`},
		{"mistyped command with flags", "kye list --plan x", nil, 2, `error: unknown command "kye" for "sluice"; did you mean "key"? (usage)`},
		{"mistyped subcommand", "app histroy hello", nil, 2, `error: unknown command "histroy" for "sluice app"; did you mean "history"? (usage)`},
		{"command of other tools", "key ls", nil, 2, `error: unknown command "ls" for "sluice key"; did you mean "list"? (usage)`},
		{"nothing near", "frobnicate", nil, 2, `error: unknown command "frobnicate" for "sluice" (usage)`},
		{"help of nothing", "help app nosuch", nil, 2, `error: unknown command "nosuch" for "sluice app" (usage)`},
		{"unknown flag", "key list --bogus", nil, 2, `error: unknown flag: --bogus; see "sluice key list --help" (usage)`},
		{
			"bad number", "app rollback hello --revision one", nil, 2,
			`error: --revision must be a whole number, not "one"; see "sluice app rollback --help" (usage)`,
		},
		{
			"too large a number", "app rollback hello --revision 99999999999999999999", nil, 2,
			`error: --revision must be a smaller number, not "99999999999999999999"; see "sluice app rollback --help" (usage)`,
		},
		{
			"bad rate", "plan create Gold --rate fast", nil, 2,
			`error: --rate must be a number, not "fast"; see "sluice plan create --help" (usage)`,
		},
		{
			"bad duration", "key rotate key-ab12cd34 --grace 2days", nil, 2,
			`error: --grace must be a duration such as 90s, 5m or 24h, not "2days"; see "sluice key rotate --help" (usage)`,
		},
		{"bad switch", "logout --help=maybe", nil, 2, `error: --help must be true or false, not "maybe"; see "sluice logout --help" (usage)`},
		{"mistyped flag", "key create --plam x", nil, 2, `error: unknown flag: --plam; did you mean "--plan"? (usage)`},
		{"mistyped common flag", "key list --projcet x", nil, 2, `error: unknown flag: --projcet; did you mean "--project"? (usage)`},
		{"beginning of a flag", "app create hello --repo x", nil, 2, `error: unknown flag: --repo; did you mean "--repository"? (usage)`},
		{"unknown letter", "key list -z", nil, 2, `error: unknown shorthand flag: 'z' in -z; see "sluice key list --help" (usage)`},
		{"a name twice", "key create a --name b --plan p", nil, 2, "error: NAME and --name set the same value: pass only one (usage)"},
		{"negative revision", "app rollback hello --revision -3 --yes", nil, 2, `error: --revision must be at least 1 (usage)`},
		{"missing argument", "app show", nil, 2, "error: missing argument APP; usage: sluice app show APP [flags] (usage)"},
		{"too many arguments", "logout now", nil, 2, `error: unexpected argument "now"; usage: sluice logout [flags] (usage)`},
		{"missing flag", "key create", nil, 2, "error: --plan is required (usage)"},
		{"empty expiry", "key create --plan p --expires=", nil, 2, "error: --expires is empty (usage)"},
		{
			"flags that exclude each other", "key update key-ab12cd34 --app a --all-apps", nil, 2,
			"error: if any flags in the group [app all-apps] are set none of the others can be; [all-apps app] were all set (usage)",
		},
		{"bad output", "key list -o xml", nil, 2, `error: --output must be table, wide, json, yaml or ids, not "xml" (usage)`},
		{"no days", "key usage key-ab12cd34 --days 0", nil, 2, "error: --days must be at least 1 (usage)"},
		{"bad status", "key list --status gone", nil, 2, `error: --status must be active, disabled, revoked or expired, not "gone" (usage)`},
		{"bad timeout", "key list --timeout 0s", nil, 2, "error: --timeout must be positive (usage)"},
		{"bad snippet", "app webhook enable hello --ci jenkins", nil, 2, `error: --ci must be github, gitlab, curl, all or none, not "jenkins" (usage)`},
		{"unknown context", "whoami --context nosuch", nil, 4, `error: context "nosuch": no such context (not_found)`},
		{
			"a path for a context", "whoami --context ../x", nil, 2,
			"error: a context name must have 1 to 63 letters, digits, '.', '_' or '-', and begin with a letter or digit (usage)",
		},
		{"a name that is a path", "app show ..", nil, 1, `error: GET /projects/shop/environments/prod/apps/..: ".." is not a valid name (failed)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			f.all = tt.answer
			r := newPerson(t, f.URL).runs(strings.Fields(tt.args)...)
			if r.exit != tt.exit || r.err != tt.stderr+"\n" || r.out != "" {
				t.Errorf("sluice %s: got %swant exit %d and %s", tt.args, r, tt.exit, tt.stderr)
			}
			if tt.answer == nil && len(f.requests()) > 0 {
				t.Errorf("got requests %q, want none", f.requests())
			}
		})
	}
}

func TestOnlyReadsAreRetried(t *testing.T) {
	t.Parallel()
	down := answer{http.StatusServiceUnavailable, `{"code":"unavailable","message":"Try again."}`}
	tests := []struct {
		name string
		args string
		want int
	}{
		{"a read", "project show shop", 3},
		{"a creation", "project create shop", 1},
		{"a patch", "key disable key-ab12cd34", 1},
		{"a revocation", "key revoke key-ab12cd34 --yes", 1},
		{"a deletion", "project delete shop --yes", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			f.all = &down
			p := newPerson(t, f.URL)
			p.tries = 3
			r := p.runs(strings.Fields(tt.args)...)
			if r.exit != 1 || r.err != "error: Try again. (unavailable)\n" {
				t.Errorf("%s", r)
			}
			if got := len(f.requests()); got != tt.want {
				t.Errorf("got %d requests, want %d", got, tt.want)
			}
		})
	}
}

func TestUnreachableServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	url := "http://" + l.Addr().String()
	check.OK(t, l.Close())
	r := newPerson(t, url).runs("whoami")
	if r.exit != 1 || !strings.HasPrefix(r.err, "error: The server cannot be reached: GET /session: dial tcp ") ||
		!strings.HasSuffix(r.err, "connection refused (unreachable)\n") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("%s", r)
	}
}

func stalling(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	got := make(chan struct{}, 10)
	end := make(chan struct{})
	f := newFake(t, nil)
	f.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got <- struct{}{}; <-end })
	t.Cleanup(func() { close(end) })
	return f.URL, got
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	url, _ := stalling(t)
	r := newPerson(t, url).runs("whoami", "--timeout", "20ms")
	if r.exit != 1 || !strings.HasPrefix(r.err, "error: The server did not respond within 20ms: ") || !strings.HasSuffix(r.err, " (timeout)\n") {
		t.Errorf("%s", r)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	url, asked := stalling(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { <-asked; cancel() }()
	r := newPerson(t, url).runsIn(ctx, "whoami")
	if r.exit != 130 || r.err != "error: Interrupted. (interrupted)\n" {
		t.Errorf("%s", r)
	}
}

func TestExpiryText(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("", 3600)
	day := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	midnightThere, within := time.Date(2026, 12, 1, 0, 0, 0, 0, berlin), day.Add(time.Second)
	inBerlin := day.In(berlin)
	for _, tt := range []struct {
		name string
		at   *time.Time
		want string
	}{
		{"never", nil, ""},
		{"the end of a day", &day, "2026-11-30"},
		{"the same in another time zone", &inBerlin, "2026-11-30"},
		{"the end of a day in another time zone", &midnightThere, "2026-11-30 23:00:00Z"},
		{"a time", &within, "2026-12-01 00:00:01Z"},
	} {
		if got := expiryText(tt.at); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
