package app

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Provider is the CI system of a trust. It determines the default claims and the actor's name;
// only the issuer authenticates pipelines.
type Provider string

// The providers.
const (
	GitHub  Provider = "github"
	GitLab  Provider = "gitlab"
	Forgejo Provider = "forgejo"
	Other   Provider = "other"
)

// Providers returns all providers.
func Providers() []Provider { return []Provider{GitHub, GitLab, Forgejo, Other} }

// Issuer returns the issuer of a provider's public service, or "" if every installation has its own
// issuer.
func (p Provider) Issuer() string {
	switch p {
	case GitHub:
		return "https://token.actions.githubusercontent.com"
	case GitLab:
		return "https://gitlab.com"
	case Forgejo, Other:
	}
	return ""
}

// TrustConditions selects pipelines of a provider. Empty fields match all.
type TrustConditions struct {
	Repository  string // e.g. "org/repo"; the subject for [Other]
	Ref         string
	Environment string
	Workflow    string

	AnyEvent    bool // also pull requests and other events
	Unprotected bool // GitLab: also unprotected branches and tags
}

// Claims returns the patterns that match w, by claim name.
func (p Provider) Claims(w TrustConditions) map[string]string {
	claims := map[string]string{"repository": w.Repository, "ref": w.Ref, "environment": w.Environment, "workflow": w.Workflow}
	switch p {
	case Other:
		claims = map[string]string{"sub": w.Repository}
	case GitLab:
		claims = map[string]string{"project_path": w.Repository, "ref": w.Ref, "environment": w.Environment}
		for prefix, kind := range map[string]string{"refs/heads/": "branch", "refs/tags/": "tag"} {
			if name, is := strings.CutPrefix(w.Ref, prefix); is {
				claims["ref"], claims["ref_type"] = name, kind
			}
		}
	case GitHub, Forgejo:
	}
	for name := range (Trust{Provider: p}).restrictions() {
		if name == protectedClaim && w.Unprotected || name != protectedClaim && w.AnyEvent {
			claims[name] = "*"
		}
	}
	maps.DeleteFunc(claims, func(_, pattern string) bool { return pattern == "" })
	return claims
}

// MaxTrusts is the maximum number of an app's trusts.
const MaxTrusts = 10

const (
	maxAudience = 512
	maxClaims   = 10
	maxPattern  = 256
)

// Trust selects pipelines that can deploy an app without a secret. Their token must have this
// issuer and audience, and match all Claims.
type Trust struct {
	ID       string   `firestore:"id"`
	Provider Provider `firestore:"provider"`
	Issuer   string   `firestore:"issuer"`   // e.g. "https://token.actions.githubusercontent.com"
	Audience string   `firestore:"audience"` // default: the webhook's URL

	// Claims are patterns by claim name. "*" matches any text without "/", "**" any text. Event
	// claims can have alternatives: "push|schedule". At least one claim names the owner.
	Claims map[string]string `firestore:"claims"`

	CreatedAt time.Time `firestore:"created_at"`
	CreatedBy string    `firestore:"created_by"` // username
}

// Pipeline is the verified content of a pipeline's token.
type Pipeline struct {
	Issuer   string
	Audience []string
	TokenID  string    // unique per issuer
	Expires  time.Time // plus the tolerated clock difference
	Claims   map[string]string
}

// Owner returns the owner of the pipeline, for limits.
func (p Pipeline) Owner() string {
	for _, name := range []string{"repository", "project_path"} {
		if whose := p.Claims[name]; whose != "" {
			return p.Issuer + " " + whose
		}
	}
	return p.Issuer + " " + p.Claims["sub"]
}

// owners contains the claims that identify an owner. The value is true if the claim is a path that
// begins with the owner.
//
//nolint:gochecknoglobals // a constant table
var owners = map[string]bool{
	"sub": true, "repository": true, "project_path": true,
	"repository_id": false, "repository_owner": false, "repository_owner_id": false,
	"project_id": false, "namespace_path": false, "namespace_id": false,
	"organization_slug": false, "organization_id": false,
}

// standardClaims are the claims that are checked for every token.
//
//nolint:gochecknoglobals // a constant list
var standardClaims = []string{"iss", "aud", "exp", "nbf", "iat", "jti"}

var claimName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./:-]{0,63}$`)

const (
	githubEvent    = "event_name"
	gitlabEvent    = "pipeline_source"
	protectedClaim = "ref_protected"
)

// restrictions returns the patterns that limit a trust to code that the repository's members have
// merged. GitHub runs pull_request_target workflows on the main branch for any user's pull
// request. GitLab runs pipelines for merge requests and unprotected branches.
func (t Trust) restrictions() map[string]string {
	switch t.system() {
	case GitHub, Forgejo:
		return map[string]string{githubEvent: "push|workflow_dispatch|schedule|release"}
	case GitLab:
		return map[string]string{gitlabEvent: "push|web|schedule|api|trigger|pipeline", protectedClaim: "true"}
	case Other:
	}
	return nil
}

// system returns the provider of the trust's tokens. A public issuer overrides t.Provider.
func (t Trust) system() Provider {
	for _, p := range []Provider{GitHub, GitLab} {
		if t.Issuer == p.Issuer() {
			return p
		}
	}
	return t.Provider
}

// Restricted returns t with its provider's restrictions, except for claims that t already has.
func (t Trust) Restricted() Trust {
	claims := map[string]string{}
	maps.Copy(claims, t.restrictions())
	maps.Copy(claims, t.Claims)
	t.Claims = claims
	return t
}

// Open reports whether t may match pipelines that run unmerged code, or pipelines of several
// owners. Trusts of earlier versions can be open and still match.
func (t Trust) Open() bool {
	for name, narrow := range t.restrictions() {
		usual := alternatives(name, narrow)
		other := func(one string) bool { return !slices.Contains(usual, one) }
		if slices.ContainsFunc(alternatives(name, t.Claims[name]), other) {
			return true
		}
	}
	return !t.names(owner)
}

// Check returns an invalid_trust problem if t cannot be added. A trust must have an audience,
// claims that can match, and a claim that names the owner.
func (t Trust) Check() error {
	if err := t.checkForm(); err != nil {
		return err
	}
	if !t.names(owner) {
		return invalidTrust("claims", "At least one claim must name the owner of the pipelines, without a wildcard in the owner's part: %s.", strings.Join(slices.Sorted(maps.Keys(owners)), ", "))
	}
	for _, name := range []string{"repository", "project_path"} {
		if path := t.Claims[name]; !validRepository(t.system(), path) {
			return invalidTrust("claims", "The claim %s must be a path such as org/repo, without scheme, host and .git. %q matches no pipeline.", name, path)
		}
	}
	return nil
}

// checkForm also applies to stored trusts.
func (t Trust) checkForm() error {
	if !slices.Contains(Providers(), t.Provider) {
		return invalidTrust("provider", "provider must be github, gitlab, forgejo or other.")
	}
	if t.Audience == "" || len(t.Audience) > maxAudience || SanitizeASCII(t.Audience, maxAudience) != t.Audience {
		return invalidTrust("audience", "audience must have 1 to %d visible characters.", maxAudience)
	}
	if len(t.Claims) == 0 || len(t.Claims) > maxClaims {
		return invalidTrust("claims", "claims must contain 1 to %d patterns by claim name.", maxClaims)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Claims)) {
		if err := checkClaim(name, t.Claims[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkClaim(name, pattern string) error {
	switch {
	case !claimName.MatchString(name):
		return invalidTrust("claims", "A claim name must have 1 to 64 letters, digits and _./:-, and begin with a letter.")
	case slices.Contains(standardClaims, name):
		return invalidTrust("claims", "The claim %s is checked for every token. Remove it.", name)
	case pattern == "" || len(pattern) > maxPattern || SanitizeASCII(pattern, maxPattern) != pattern:
		return invalidTrust("claims", "The pattern of claim %s must have 1 to %d visible characters.", name, maxPattern)
	case slices.Contains(alternatives(name, pattern), ""):
		return invalidTrust("claims", "The claim %s has an empty alternative. Remove it.", name)
	case matchesAll(name, pattern) && name != githubEvent && name != gitlabEvent && name != protectedClaim:
		return invalidTrust("claims", "The claim %s matches any value. Use a narrower pattern, or remove it.", name)
	}
	return nil
}

func matchesAll(claim, pattern string) bool {
	return slices.ContainsFunc(alternatives(claim, pattern), func(one string) bool { return strings.Trim(one, "*/") == "" })
}

// alternatives returns the patterns of which one must match. Only event claims have several: their
// values never contain "|".
func alternatives(claim, pattern string) []string {
	if claim == githubEvent || claim == gitlabEvent {
		return strings.Split(pattern, "|")
	}
	return []string{pattern}
}

func (t Trust) names(by func(claim, pattern string) bool) bool {
	for name, pattern := range t.Claims {
		if by(name, pattern) {
			return true
		}
	}
	return false
}

func owner(claim, pattern string) bool {
	path, known := owners[claim]
	head, _, open := strings.Cut(pattern, "*")
	switch {
	case !known || !open:
		return known
	case claim == "sub":
		return subjectOwner(head)
	}
	return path && whole(head, "/")
}

// subjectKinds contains further words that can precede the owner in a subject. The value is true if
// the owner begins a path.
//
//nolint:gochecknoglobals // a constant table
var subjectKinds = map[string]bool{"repo": true, "organization": false}

// subjectOwner reports whether the beginning of a subject names a complete owner, e.g. "repo:org/",
// "organization:acme:", "spiffe://example.org/" or "org/".
func subjectOwner(head string) bool {
	kind, rest, typed := strings.Cut(head, ":")
	switch {
	case !typed:
		return whole(head, "/")
	case strings.HasPrefix(rest, "//"):
		return !strings.Contains(kind, "/") && whole(rest[2:], "/")
	}
	path, known := subjectKinds[kind]
	if !known && kind != "sub" {
		path, known = owners[kind]
	}
	if path {
		return known && whole(rest, "/")
	}
	return known && whole(rest, ":")
}

func whole(text, end string) bool {
	part, _, closed := strings.Cut(text, end)
	return closed && part != ""
}

// looseOwner is the rule of the first version, for stored trusts: it accepted any subject with a
// "/" before the first wildcard.
func looseOwner(claim, pattern string) bool {
	path, known := owners[claim]
	head, _, open := strings.Cut(pattern, "*")
	return known && (!open || path && whole(head, "/")) || owner(claim, pattern)
}

func validRepository(p Provider, path string) bool {
	switch {
	case path == "":
		return true
	case strings.ContainsAny(path, ":@") || strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.HasSuffix(path, ".git"):
		return false
	}
	return strings.Contains(path, "**") || p == Other || p == GitLab || strings.Count(path, "/") == 1
}

func invalidTrust(field, format string, args ...any) error {
	e := problem.New(problem.InvalidTrust, format, args...)
	e.Field = field
	return e
}

// Same reports whether two trusts match the same pipelines.
func (t Trust) Same(other Trust) bool {
	return t.Issuer == other.Issuer && t.Audience == other.Audience && maps.Equal(t.Claims, other.Claims)
}

// Matches reports whether a trust matches a pipeline.
func (t Trust) Matches(p Pipeline) bool {
	if t.checkForm() != nil || !t.names(looseOwner) || t.Issuer != p.Issuer || !slices.Contains(p.Audience, t.Audience) {
		return false
	}
	for name, pattern := range t.Claims {
		value, ok := p.Claims[name]
		if !ok || !slices.ContainsFunc(alternatives(name, pattern), func(one string) bool { return matches(one, value) }) {
			return false
		}
	}
	return true
}

// FirstMatch returns the first trust that matches a pipeline.
func FirstMatch(trusts []Trust, p Pipeline) (Trust, bool) {
	for _, t := range trusts {
		if t.Matches(p) {
			return t, true
		}
	}
	return Trust{}, false
}

// matches reports whether a value matches a pattern, in linear time.
func matches(pattern, value string) bool {
	parts := strings.Split(regexp.QuoteMeta(pattern), `\*`)
	var b strings.Builder
	b.WriteString(`(?s)\A` + parts[0])
	for i := 1; i < len(parts); i++ {
		gap := `[^/]*`
		if i+1 < len(parts) && parts[i] == "" { // "**"
			gap = `.*`
			i++
		}
		b.WriteString(gap + parts[i])
	}
	form, err := regexp.Compile(b.String() + `\z`)
	return err == nil && form.MatchString(value)
}

const maxActor = 200

// Actor returns the pipeline's name in the deployment history, e.g. "github: org/repo@main by
// workflow deploy".
func (t Trust) Actor(p Pipeline) string {
	repository, by, ref := p.Claims["repository"], p.Claims["workflow"], p.Claims["ref"]
	switch t.Provider {
	case GitHub, Forgejo:
		by = named(" by workflow ", by)
	case GitLab:
		repository, by = p.Claims["project_path"], named(" by pipeline ", p.Claims["pipeline_id"])
	case Other:
		repository, by, ref = p.Claims["sub"], "", ""
	}
	if repository == "" {
		repository = p.Claims["sub"]
	}
	for _, kind := range []string{"refs/heads/", "refs/tags/"} {
		ref = strings.TrimPrefix(ref, kind)
	}
	return SanitizeASCII(string(t.Provider)+": "+repository+named("@", ref)+by, maxActor)
}

func named(what, value string) string {
	if value == "" {
		return ""
	}
	return what + value
}

// SanitizeASCII shortens s to most bytes and replaces characters outside printable ASCII with "?".
func SanitizeASCII(s string, most int) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s[:min(len(s), most)])
}
