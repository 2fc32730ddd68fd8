package app

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
)

const actions = "https://token.actions.githubusercontent.com"

func trusting(claims map[string]string) Trust {
	return Trust{Provider: GitHub, Issuer: actions, Audience: "https://sluice.example.com/hook", Claims: claims}
}

func TestTrustCheck(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", maxPattern+1)
	many := map[string]string{"repository": "org/repo"}
	for _, c := range "abcdefghij" {
		many[string(c)] = "x"
	}
	for name, c := range map[string]struct {
		claims map[string]string
		good   bool
	}{
		"exact":                         {map[string]string{"repository": "org/repo"}, true},
		"of an organisation":            {map[string]string{"repository": "org/*"}, true},
		"with a ref":                    {map[string]string{"repository": "org/repo", "ref": "refs/heads/*"}, true},
		"subject":                       {map[string]string{"sub": "repo:org/repo:**"}, true},
		"number":                        {map[string]string{"repository_id": "123"}, true},
		"a kind and its owner":          {map[string]string{"sub": "organization:acme:**"}, true},
		"an owner by number":            {map[string]string{"sub": "repository_owner_id:42:**"}, true},
		"a trust domain":                {map[string]string{"sub": "spiffe://example.org/**"}, true},
		"some events":                   {map[string]string{"repository": "org/repo", "event_name": "push|schedule"}, true},
		"all events":                    {map[string]string{"repository": "org/repo", "event_name": "*"}, true},
		"any trust domain":              {map[string]string{"sub": "spiffe://**"}, false},
		"many trust domains":            {map[string]string{"sub": "spiffe://example*/x/**"}, false},
		"any organization":              {map[string]string{"sub": "organization:**"}, false},
		"many organizations":            {map[string]string{"sub": "organization:acme*"}, false},
		"a kind that is no owner":       {map[string]string{"sub": "ref:refs/heads/**"}, false},
		"an environment of anyone":      {map[string]string{"sub": "environment:prod:**"}, false},
		"an empty alternative":          {map[string]string{"repository": "org/repo", "event_name": "push|"}, false},
		"a URL":                         {map[string]string{"repository": "https://github.com/org/repo"}, false},
		"a clone address":               {map[string]string{"repository": "git@github.com:org/repo"}, false},
		"a repository with .git":        {map[string]string{"repository": "org/repo.git"}, false},
		"a host and a repository":       {map[string]string{"repository": "github.com/org/repo"}, false},
		"a repository without an owner": {map[string]string{"repository": "repo"}, false},
		"nothing":                       {nil, false},
		"no owner":                      {map[string]string{"ref": "refs/heads/main"}, false},
		"any owner":                     {map[string]string{"repository": "*/repo"}, false},
		"many owners":                   {map[string]string{"repository": "o*/repo"}, false},
		"all beneath nothing":           {map[string]string{"repository": "/**"}, false},
		"any subject":                   {map[string]string{"sub": "repo:*"}, false},
		"any number":                    {map[string]string{"repository_id": "12*"}, false},
		"only stars":                    {map[string]string{"repository": "org/repo", "ref": "**"}, false},
		"empty":                         {map[string]string{"repository": "org/repo", "ref": ""}, false},
		"a claim that is checked":       {map[string]string{"repository": "org/repo", "aud": "x"}, false},
		"an invalid name":               {map[string]string{"repository": "org/repo", "a b": "x"}, false},
		"a pattern with a line":         {map[string]string{"repository": "org/repo\n"}, false},
		"a pattern that is long":        {map[string]string{"repository": long}, false},
		"more claims than there may be": {many, false},
	} {
		err := trusting(c.claims).Check()
		if good := err == nil; good != c.good || !good && !problem.Is(err, problem.InvalidTrust) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for name, change := range map[string]func(*Trust){
		"no audience":      func(t *Trust) { t.Audience = "" },
		"no such provider": func(t *Trust) { t.Provider = "hub" },
	} {
		trust := trusting(map[string]string{"repository": "org/repo"})
		change(&trust)
		if trust.Check() == nil || trust.Matches(pipeline()) {
			t.Errorf("%s: got no error", name)
		}
	}
}

func TestTrustRestricted(t *testing.T) {
	t.Parallel()
	github := map[string]string{"repository": "org/repo", "ref": "refs/heads/main"}
	gitlab := map[string]string{"project_path": "org/repo"}
	with := func(claims map[string]string, more ...string) map[string]string {
		all := maps.Clone(claims)
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	for name, tt := range map[string]struct {
		provider Provider
		issuer   string
		claims   map[string]string
		token    map[string]string
		want     bool
		open     bool
	}{
		"push":                       {provider: GitHub, claims: github, token: with(github, "event_name", "push"), want: true},
		"dispatch":                   {provider: Forgejo, claims: github, token: with(github, "event_name", "workflow_dispatch"), want: true},
		"pull_request_target":        {provider: GitHub, claims: github, token: with(github, "event_name", "pull_request_target")},
		"no event":                   {provider: GitHub, claims: github, token: github},
		"every event":                {provider: GitHub, claims: with(github, "event_name", "*"), token: with(github, "event_name", "pull_request_target"), want: true, open: true},
		"its own event":              {provider: GitHub, claims: with(github, "event_name", "deployment"), token: with(github, "event_name", "deployment"), want: true, open: true},
		"a pattern of events":        {provider: GitHub, claims: with(github, "event_name", "push|p*"), token: with(github, "event_name", "pull_request_target"), want: true, open: true},
		"fewer events":               {provider: GitHub, claims: with(github, "event_name", "release"), token: with(github, "event_name", "release"), want: true},
		"another provider's name":    {provider: Other, issuer: GitHub.Issuer(), claims: github, token: with(github, "event_name", "pull_request_target")},
		"protected branch":           {provider: GitLab, claims: gitlab, token: with(gitlab, "pipeline_source", "push", "ref_protected", "true"), want: true},
		"unprotected branch":         {provider: GitLab, claims: gitlab, token: with(gitlab, "pipeline_source", "push", "ref_protected", "false")},
		"merge request":              {provider: GitLab, claims: gitlab, token: with(gitlab, "pipeline_source", "merge_request_event", "ref_protected", "true")},
		"unprotected, by option":     {provider: GitLab, claims: with(gitlab, "ref_protected", "*"), token: with(gitlab, "pipeline_source", "push", "ref_protected", "false"), want: true, open: true},
		"a system of another issuer": {provider: Other, claims: map[string]string{"sub": "org/repo"}, token: map[string]string{"sub": "org/repo"}, want: true},
	} {
		trust := trusting(tt.claims)
		trust.Provider, trust.Issuer = tt.provider, cmp.Or(tt.issuer, "https://ci.example.com")
		trust = trust.Restricted()
		if err := trust.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p := pipeline()
		p.Issuer, p.Claims = trust.Issuer, tt.token
		if got := trust.Matches(p); got != tt.want || trust.Open() != tt.open {
			t.Errorf("%s: got match %t, open %t, want %t, %t", name, got, trust.Open(), tt.want, tt.open)
		}
	}
}

// A stored trust that can no longer be added still matches the same pipelines, and counts as open.
func TestStoredTrustsStay(t *testing.T) {
	t.Parallel()
	for _, claims := range []map[string]string{{"sub": "repo://**"}, {"repository": "org/repo"}} {
		trust, p := trusting(claims), pipeline()
		p.Claims["sub"] = "repo://x"
		if !trust.Matches(p) || !trust.Open() {
			t.Errorf("%v: got match %t, open %t, want both", claims, trust.Matches(p), trust.Open())
		}
	}
	if trust := trusting(map[string]string{"sub": "repo://**"}); trust.Check() == nil {
		t.Error("a trust for any owner is accepted")
	}
	literal := trusting(map[string]string{"repository": "org/repo", "ref": "refs/heads/a|refs/heads/main"})
	if literal.Matches(pipeline()) {
		t.Error("a ref can have alternatives")
	}
}

func pipeline() Pipeline {
	return Pipeline{Issuer: actions, Audience: []string{"other", "https://sluice.example.com/hook"}, Claims: map[string]string{
		"repository": "org/repo", "ref": "refs/heads/main", "workflow": "deploy", "sub": "repo:org/repo:ref:refs/heads/main", "empty": "",
	}}
}

func TestTrustAdmits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claims map[string]string
		want   bool
	}{
		"exact":               {map[string]string{"repository": "org/repo", "ref": "refs/heads/main"}, true},
		"part of a path":      {map[string]string{"repository": "org/*", "ref": "refs/*/main"}, true},
		"the rest of a path":  {map[string]string{"sub": "repo:org/repo:**"}, true},
		"a star within":       {map[string]string{"repository": "org/r*o"}, true},
		"a star for nothing":  {map[string]string{"repository": "org/repo*"}, true},
		"a star is no slash":  {map[string]string{"repository": "org/repo", "ref": "refs/*"}, false},
		"a dot is a dot":      {map[string]string{"repository": "org/rep."}, false},
		"another repository":  {map[string]string{"repository": "org/repo2"}, false},
		"the beginning alone": {map[string]string{"repository": "org/rep"}, false},
		"another case":        {map[string]string{"repository": "Org/repo"}, false},
		"one of two":          {map[string]string{"repository": "org/repo", "ref": "refs/heads/release"}, false},
		"a missing claim":     {map[string]string{"repository": "org/repo", "environment": "prod"}, false},
	} {
		trust := trusting(c.claims)
		if err := trust.Check(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := trust.Matches(pipeline()); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	trust := trusting(map[string]string{"repository": "org/repo"})
	for name, change := range map[string]func(*Pipeline){
		"another issuer":   func(p *Pipeline) { p.Issuer = "https://gitlab.com" },
		"another audience": func(p *Pipeline) { p.Audience = []string{"https://sluice.example.com/hook2"} },
		"no audience":      func(p *Pipeline) { p.Audience = nil },
	} {
		p := pipeline()
		change(&p)
		if _, ok := FirstMatch([]Trust{trust}, p); ok {
			t.Errorf("%s: got a match", name)
		}
	}
	if got, ok := FirstMatch([]Trust{trusting(map[string]string{"repository": "org/other"}), trust}, pipeline()); !ok || !got.Same(trust) {
		t.Errorf("second of two trusts: got %v", got)
	}
}

func TestActor(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		provider Provider
		claims   map[string]string
	}{
		"github: org/repo@main by workflow deploy":       {GitHub, pipeline().Claims},
		"forgejo: org/repo@v1":                           {Forgejo, map[string]string{"repository": "org/repo", "ref": "refs/tags/v1"}},
		"gitlab: group/a/project@main by pipeline 12":    {GitLab, map[string]string{"project_path": "group/a/project", "ref": "main", "pipeline_id": "12"}},
		"other: org/anything":                            {Other, map[string]string{"sub": "org/anything", "ref": "refs/heads/main"}},
		"github: repo:org/repo":                          {GitHub, map[string]string{"sub": "repo:org/repo"}},
		"github: org/repo@main?<b> by workflow ?[31mred": {GitHub, map[string]string{"repository": "org/repo", "ref": "refs/heads/main\n<b>", "workflow": "\x1b[31mred"}},
	} {
		if got := (Trust{Provider: c.provider}).Actor(Pipeline{Claims: c.claims}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	long := Trust{Provider: Other}.Actor(Pipeline{Claims: map[string]string{"sub": strings.Repeat("é", 1000)}})
	if len(long) > maxActor {
		t.Errorf("got %d bytes", len(long))
	}
}

func TestProviderClaims(t *testing.T) {
	t.Parallel()
	w := TrustConditions{Repository: "g/p", Ref: "refs/heads/main", Environment: "prod"}
	for _, p := range []Provider{GitHub, Forgejo} {
		if got := p.Claims(w); len(got) != 3 || got["repository"] != "g/p" || got["ref"] != "refs/heads/main" || got["environment"] != "prod" {
			t.Errorf("%s: got %v", p, got)
		}
	}
	w.AnyEvent, w.Unprotected = true, true
	if got := GitHub.Claims(w); got["event_name"] != "*" || got["ref_protected"] != "" {
		t.Errorf("github, open: got %v", got)
	}
	if got := GitLab.Claims(w); got["pipeline_source"] != "*" || got["ref_protected"] != "*" {
		t.Errorf("gitlab, open: got %v", got)
	}
	w.AnyEvent, w.Unprotected = false, false
	if got := GitLab.Claims(w); len(got) != 4 || got["project_path"] != "g/p" || got["ref"] != "main" || got["ref_type"] != "branch" {
		t.Errorf("gitlab: got %v", got)
	}
}
