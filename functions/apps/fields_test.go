package apps

import (
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/tests/check"
)

func TestGitSource(t *testing.T) {
	t.Parallel()
	good := app.GitSource{Repository: "https://git.example/shop.git", Branch: "main"}
	repository := func(s string) app.GitSource { return app.GitSource{Repository: s, Branch: "main"} }
	branch := func(s string) app.GitSource { return app.GitSource{Repository: good.Repository, Branch: s} }
	folder := func(s string) app.GitSource {
		return app.GitSource{Repository: good.Repository, Branch: "main", Path: s}
	}
	tests := []struct {
		name string
		g    app.GitSource
		ok   bool
	}{
		{"https", good, true},
		{"http with a port", repository("http://127.0.0.1:3000/a/b"), true},
		{"ssh", repository("ssh://git@git.example:2222/shop.git"), true},
		{"short ssh", repository("git@git.example:shop/web.git"), true},
		{"nothing", repository(""), false},
		{"a file", repository("file:///etc"), false},
		{"a path", repository("/etc"), false},
		{"a command", repository("ext::sh -c id"), false},
		{"an option", repository("--upload-pack=id"), false},
		{"an option as host", repository("ssh://-oProxyCommand=id/x"), false},
		{"an option as user", repository("ssh://-oProxyCommand=id@h/x"), false},
		{"an option in the short form", repository("git@git.example:-x"), false},
		{"a password", repository("https://me:secret@git.example/x"), false},
		{"a token", repository("https://token@git.example/x"), false},
		{"no repository", repository("https://git.example/"), false},
		{"a line break", repository("https://git.example/x\n"), false},
		{"too long", repository("https://git.example/" + strings.Repeat("x", 2048)), false},
		{"branch with a slash", branch("feature/main"), true},
		{"no branch", branch(""), false},
		{"branch is an option", branch("-b"), false},
		{"branch with dots", branch("a..b"), false},
		{"branch with a blank", branch("a b"), false},
		{"branch ends in .lock", branch("a.lock"), false},
		{"branch with a colon", branch("a:b"), false},
		{"branch ends in a slash", branch("a/"), false},
		{"branch is @", branch("@"), false},
		{"folder", folder("services/api"), true},
		{"folder above", folder("../x"), false},
		{"folder in between", folder("a/../../x"), false},
		{"absolute folder", folder("/etc"), false},
		{"folder is a dot", folder("."), false},
	}
	for _, tt := range tests {
		if err := checkGitSource(tt.g); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{AppsDomain: "localhost", AppHost: "{app}-{namespace}.{domain}", AppURL: "http://{host}:8080", Routes: cluster.Routes{EntryPoints: []string{"web"}}}
	check.OK(t, good.check())
	for name, change := range map[string]func(*Config){
		"domain":         func(c *Config) { c.AppsDomain = "a b" },
		"host":           func(c *Config) { c.AppHost = "{app}.{domain}" },
		"URL":            func(c *Config) { c.AppURL = "http://example.com" },
		"URL's scheme":   func(c *Config) { c.AppURL = "{host}" },
		"wiring's URL":   func(c *Config) { c.WiringURL = "wiring" },
		"no entry point": func(c *Config) { c.EntryPoints = nil },
		"below console":  func(c *Config) { c.AppsDomain, c.BaseURL = "apps.sluice.example.com", "https://sluice.example.com" },
		"below an extra host": func(c *Config) {
			c.AppsDomain, c.ExtraHosts = "apps.sluice.example.com", []string{"sluice.example.com"}
		},
		"console's own": func(c *Config) { c.AppsDomain, c.BaseURL = "Sluice.example.com", "https://sluice.example.com" },
	} {
		c := good
		change(&c)
		if c.check() == nil {
			t.Errorf("invalid %s: got no error", name)
		}
	}
}

func TestInvalidHostStatesTheRule(t *testing.T) {
	t.Parallel()
	c := Config{AppsDomain: "apps.example", AppHost: "{app}-{namespace}.{domain}", BaseURL: "https://console.example.net", ReservedHosts: []string{".corp.example"}}
	parts, reserved := "Each part has 1 to 63 letters", "is reserved by Sluice or its operator"
	for host, rule := range map[string]string{
		"localhost": "at least two parts", strings.Repeat("a.", 126) + "aa": "at most 253 characters", "127.0.0.1": "not end in a number", "shop.1": "not end in a number",
		"": parts, "shop.example.com:8080": parts, "https://shop.example.com": parts, "shop.example.com.": parts, "-a.example": parts, "a-.example": parts,
		"a_b.example": parts, "*.example.com": parts, "bücher.example": parts, strings.Repeat("a", 64) + ".example": parts,
		"apps.example": reserved, "console.example.net": reserved, "x.corp.example": reserved,
		"hello-shop-prod.apps.example": "default hosts of another environment", "x.bank-prod.apps.example": "default hosts of another environment",
	} {
		_, err := c.host(&host, app.Ref{Namespace: "shop-test", Name: "hello"})
		if !problem.Is(err, problem.InvalidHost) || !strings.Contains(problem.From(err).Message, rule) {
			t.Errorf("%.80q: got %v, want a message with %q", host, err, rule)
		}
	}
}

func TestHostsNearTheConsole(t *testing.T) {
	t.Parallel()
	const refused, told, free = "refused", "told", "free"
	tests := []struct{ base, host, want string }{
		{"https://sluice.example.com", "sluice.example.com", refused},
		{"https://Sluice.example.com:8443/x", "SLUICE.example.com", refused},
		{"https://sluice.example.com", "shop.sluice.example.com", refused},
		{"https://sluice.example.com", "a.b.sluice.example.com", refused},
		{"https://sluice.example.com", "example.com", refused},
		{"https://sluice.example.com", "shop.example.com", told},
		{"https://sluice.example.com", "notsluice.example.com", told},
		{"https://sluice.example.com", "hello.shop-prod.apps.example.com", told},
		{"https://sluice.example.com", "example.org", free},
		{"https://sluice.example.co.uk", "shop.co.uk", free},
		{"https://sluice.example.co.uk", "shop.example.co.uk", told},
		{"https://sluice.github.io", "shop.github.io", free}, // a public suffix
		{"https://sluice.github.io", "x.sluice.github.io", refused},
		{"http://localhost:8080", "hello.shop-prod.localhost", free},
		{"http://sluice.localhost", "hello.shop-prod.localhost", free},
		{"http://sluice.localhost", "x.sluice.localhost", refused},
		{"http://192.0.2.1:8080", "shop.example.com", free},
		{"http://[::1]:8080", "shop.example.com", free},
		{"", "shop.example.com", free},
	}
	near := func(c Config, host string) string {
		host, err := c.host(&host, app.Ref{Namespace: "shop-prod", Name: "hello"})
		switch {
		case problem.Is(err, problem.InvalidHost):
			return refused
		case err != nil:
			t.Fatal(err)
		case c.baseHosts().SharesDomain(host):
			return told
		}
		return free
	}
	for _, tt := range tests {
		if got := near(Config{AppsDomain: "elsewhere.example", BaseURL: tt.base}, tt.host); got != tt.want {
			t.Errorf("%s with BASE_URL %q: got %s, want %s", tt.host, tt.base, got, tt.want)
		}
		base, err := url.Parse(tt.base)
		check.OK(t, err)
		extra := []string{"internal.example.net", base.Hostname()}
		if got := near(Config{AppsDomain: "elsewhere.example", BaseURL: "https://console.example.net", ExtraHosts: extra}, tt.host); got != tt.want {
			t.Errorf("%s with EXTRA_HOSTS %q: got %s, want %s", tt.host, extra, got, tt.want)
		}
	}
}

// FuzzHost compares the check with that of Kubernetes, which the cluster applies to routes.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"a.example.com", "A.example.com", "a", "10.0.0.1", "a..b", "-a.b", "a`b.c", "xn--mnchen-3ya.de", "a.1", "ａ.com"} {
		f.Add(s)
	}
	c := Config{AppsDomain: "localhost", AppHost: "{app}-{namespace}.{domain}"}
	f.Fuzz(func(t *testing.T, s string) {
		host, err := c.host(&s, app.Ref{Namespace: "n-s", Name: "a"})
		if err != nil {
			return
		}
		if bad := validation.IsDNS1123Subdomain(host); len(bad) > 0 || strings.ToLower(host) != host {
			t.Errorf("%q became %q: %v", s, host, bad)
		}
	})
}

// FuzzGitSource tests that git cannot misread an accepted source.
func FuzzGitSource(f *testing.F) {
	f.Add("https://git.example/x", "main", "a/b")
	f.Add("git@git.example:x/y", "feature/x", "")
	f.Add("ssh://git@-host/x", "-x", "../y")
	f.Fuzz(func(t *testing.T, repository, branch, folder string) {
		if checkGitSource(app.GitSource{Repository: repository, Branch: branch, Path: folder}) != nil {
			return
		}
		for _, s := range []string{repository, branch, folder} {
			if strings.HasPrefix(s, "-") || strings.ContainsAny(s, " \n\r\t\x00\\") {
				t.Errorf("%q was accepted", s)
			}
		}
		if strings.HasPrefix(folder, "/") || strings.Contains("/"+folder+"/", "/../") || strings.Contains(branch, "..") {
			t.Errorf("%q and %q were accepted", branch, folder)
		}
	})
}
