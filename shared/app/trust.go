package app

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/problem"
)

// Provider is the system whose pipelines a trust is about. It says in which words the
// history names them; who they are is proven by the issuer alone.
type Provider string

// The providers.
const (
	GitHub  Provider = "github"
	GitLab  Provider = "gitlab"
	Forgejo Provider = "forgejo"
	Other   Provider = "other"
)

// Providers lists the providers.
func Providers() []Provider { return []Provider{GitHub, GitLab, Forgejo, Other} }

// Issuer is where a provider's public service issues its tokens; "" where each
// installation of it is an issuer of its own.
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

// Where is which of a provider's pipelines are meant; what is "" may be anything.
type Where struct {
	Repository  string // e.g. "org/repo"; of another system's pipelines the subject
	Ref         string // e.g. "refs/heads/main"
	Environment string // as the provider calls it
	Workflow    string // its name

	AnyEvent    bool // runs of pull requests and of all other events too
	Unprotected bool // GitLab: runs on unprotected branches and tags too
}

// Claims are the claims by which a provider's tokens tell such pipelines.
func (p Provider) Claims(w Where) map[string]string {
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

// MaxTrusts is how many an app has at most.
const MaxTrusts = 10

// The bounds of a trust, in bytes and pieces.
const (
	maxAudience = 512
	maxClaims   = 10
	maxPattern  = 256
)

// Trust says which pipelines deploy an app without a secret: those that bring a token of
// this issuer, for this audience, whose claims all match.
type Trust struct {
	ID       string   `firestore:"id"` // of the app's trusts, e.g. "t3xk9"
	Provider Provider `firestore:"provider"`
	Issuer   string   `firestore:"issuer"`   // as its tokens name it, e.g. "https://token.actions.githubusercontent.com"
	Audience string   `firestore:"audience"` // whom the token is meant for; the webhook's URL unless told otherwise

	// Claims are patterns by the claim's name. "*" is any text without "/", "**" is any
	// text, all else is itself. There is at least one that says whose pipelines they are.
	// Patterns of event claims can have alternatives: "push|schedule".
	Claims map[string]string `firestore:"claims"`

	CreatedAt time.Time `firestore:"created_at"`
	CreatedBy string    `firestore:"created_by"` // username
}

// Pipeline is what a token has proven about the pipeline that brought it.
type Pipeline struct {
	Issuer   string
	Audience []string
	TokenID  string    // what the issuer calls the token; no two are called the same
	Expires  time.Time // of the token, with all that clocks may differ
	Claims   map[string]string
}

// Owner is whose pipeline it is, as far as its token tells, e.g. for counting.
func (p Pipeline) Owner() string {
	for _, name := range []string{"repository", "project_path"} {
		if whose := p.Claims[name]; whose != "" {
			return p.Issuer + " " + whose
		}
	}
	return p.Issuer + " " + p.Claims["sub"]
}

// owners are the claims that say whose pipelines they are, and whether their values are
// paths, the first part of which is the owner.
//
//nolint:gochecknoglobals // a constant table
var owners = map[string]bool{
	"sub": true, "repository": true, "project_path": true,
	"repository_id": false, "repository_owner": false, "repository_owner_id": false,
	"project_id": false, "namespace_path": false, "namespace_id": false,
	"organization_slug": false, "organization_id": false,
}

// elsewhere are the claims that every token is checked for anyway.
//
//nolint:gochecknoglobals // a constant list
var elsewhere = []string{"iss", "aud", "exp", "nbf", "iat", "jti"}

var claimName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./:-]{0,63}$`)

// Claims that tell what started a run, and whether its branch or tag is protected.
const (
	githubEvent    = "event_name"
	gitlabEvent    = "pipeline_source"
	protectedClaim = "ref_protected"
)

// restrictions returns the patterns that keep a trust to code that the repository's own
// members have merged. GitHub runs a pull_request_target workflow on the main branch for
// anyone's pull request. GitLab runs pipelines for merge requests and unprotected branches.
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

// system returns the provider of the trust's tokens, which is known by its public issuer even
// if the trust names another provider.
func (t Trust) system() Provider {
	for _, p := range []Provider{GitHub, GitLab} {
		if t.Issuer == p.Issuer() {
			return p
		}
	}
	return t.Provider
}

// Restricted returns t with its provider's restrictions. A claim that t names already stays as
// it is; "*" opens it.
func (t Trust) Restricted() Trust {
	claims := map[string]string{}
	maps.Copy(claims, t.restrictions())
	maps.Copy(claims, t.Claims)
	t.Claims = claims
	return t
}

// Open reports whether t may admit more than runs of merged code of a certain owner: it lacks a
// restriction of its provider, a restriction has a value that is not one of the provider's
// defaults, or its subject does not name an owner. A trust that an earlier
// version stored can be open; it admits the same pipelines as before.
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

// Check returns an invalid_trust problem, with the field, unless t can be added: it needs an
// audience, claims that can match, and one that names the owner of the pipelines.
func (t Trust) Check() error {
	if err := t.checkForm(); err != nil {
		return err
	}
	if !t.names(owner) {
		return flaw("claims", "One of the claims must say whose pipelines they are, without a pattern where the owner stands: %s.", strings.Join(slices.Sorted(maps.Keys(owners)), ", "))
	}
	for _, name := range []string{"repository", "project_path"} {
		if path := t.Claims[name]; !validRepository(t.system(), path) {
			return flaw("claims", "The claim %s is a path such as org/repo, without scheme, host and .git: %q matches no pipeline.", name, path)
		}
	}
	return nil
}

// checkForm is the part of Check that also holds for stored trusts.
func (t Trust) checkForm() error {
	if !slices.Contains(Providers(), t.Provider) {
		return flaw("provider", "provider is github, gitlab, forgejo or other.")
	}
	if t.Audience == "" || len(t.Audience) > maxAudience || Printable(t.Audience, maxAudience) != t.Audience {
		return flaw("audience", "audience is a text of 1 to %d visible characters.", maxAudience)
	}
	if len(t.Claims) == 0 || len(t.Claims) > maxClaims {
		return flaw("claims", "claims are 1 to %d patterns by their claims' names.", maxClaims)
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
		return flaw("claims", "A claim's name is 1 to 64 letters, digits and _./:-, and begins with a letter.")
	case slices.Contains(elsewhere, name):
		return flaw("claims", "The claim %s is checked of every token; leave it out.", name)
	case pattern == "" || len(pattern) > maxPattern || Printable(pattern, maxPattern) != pattern:
		return flaw("claims", "The claim %s needs a pattern of 1 to %d visible characters.", name, maxPattern)
	case slices.Contains(alternatives(name, pattern), ""):
		return flaw("claims", "The claim %s has an empty alternative.", name)
	case matchesAll(name, pattern) && name != githubEvent && name != gitlabEvent && name != protectedClaim:
		return flaw("claims", "The claim %s would match anything.", name)
	}
	return nil
}

// matchesAll reports whether a claim's pattern, or an alternative of it, consists of wildcards
// only.
func matchesAll(claim, pattern string) bool {
	return slices.ContainsFunc(alternatives(claim, pattern), func(one string) bool { return strings.Trim(one, "*/") == "" })
}

// alternatives returns the patterns of which one must match. Only events have several: their
// values never contain "|".
func alternatives(claim, pattern string) []string {
	if claim == githubEvent || claim == gitlabEvent {
		return strings.Split(pattern, "|")
	}
	return []string{pattern}
}

// names reports whether one of the claims names the owner of the pipelines, by a rule.
func (t Trust) names(by func(claim, pattern string) bool) bool {
	for name, pattern := range t.Claims {
		if by(name, pattern) {
			return true
		}
	}
	return false
}

// owner reports whether a claim's pattern names the owner of the pipelines completely.
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

// subjectKinds are the first parts of subjects that an owner follows, besides the claims of
// owners, and whether the owner is the first part of a path.
//
//nolint:gochecknoglobals // a constant table
var subjectKinds = map[string]bool{"repo": true, "organization": false}

// subjectOwner reports whether the beginning of a subject names its owner completely, as in
// "repo:org/", "organization:acme:", "spiffe://example.org/" or "org/".
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

// whole reports whether text begins with a part that is not empty and that end closes.
func whole(text, end string) bool {
	part, _, closed := strings.Cut(text, end)
	return closed && part != ""
}

// looseOwner is the rule of the first version, by which stored trusts stay valid: it took any
// subject with a "/" before the first wildcard.
func looseOwner(claim, pattern string) bool {
	path, known := owners[claim]
	head, _, open := strings.Cut(pattern, "*")
	return known && (!open || path && whole(head, "/")) || owner(claim, pattern)
}

// validRepository reports whether a pattern can match a repository's path; "" is no claim.
func validRepository(p Provider, path string) bool {
	switch {
	case path == "":
		return true
	case strings.ContainsAny(path, ":@") || strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.HasSuffix(path, ".git"):
		return false
	}
	return strings.Contains(path, "**") || p == Other || p == GitLab || strings.Count(path, "/") == 1
}

func flaw(field, format string, args ...any) error {
	e := problem.New(problem.InvalidTrust, format, args...)
	e.Field = field
	return e
}

// Same tells whether two trusts are about the same pipelines.
func (t Trust) Same(other Trust) bool {
	return t.Issuer == other.Issuer && t.Audience == other.Audience && maps.Equal(t.Claims, other.Claims)
}

// Admits tells whether a pipeline is one that t is about.
func (t Trust) Admits(p Pipeline) bool {
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

// Admitting finds the first trust that admits a pipeline.
func Admitting(trusts []Trust, p Pipeline) (Trust, bool) {
	for _, t := range trusts {
		if t.Admits(p) {
			return t, true
		}
	}
	return Trust{}, false
}

// matches tells whether a value is what a pattern says, in time that grows with their
// lengths alone.
func matches(pattern, value string) bool {
	parts := strings.Split(regexp.QuoteMeta(pattern), `\*`)
	var b strings.Builder
	b.WriteString(`(?s)\A` + parts[0])
	for i := 1; i < len(parts); i++ {
		gap := `[^/]*`
		if i+1 < len(parts) && parts[i] == "" { // two in a row
			gap = `.*`
			i++
		}
		b.WriteString(gap + parts[i])
	}
	form, err := regexp.Compile(b.String() + `\z`)
	return err == nil && form.MatchString(value)
}

// maxActor bounds what the history calls a pipeline, in bytes.
const maxActor = 200

// Actor is what the history calls a pipeline that t admits, e.g.
// "github: org/repo@main by workflow deploy".
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
	return Printable(string(t.Provider)+": "+repository+named("@", ref)+by, maxActor)
}

func named(what, value string) string {
	if value == "" {
		return ""
	}
	return what + value
}

// Printable cuts s to a number of bytes and puts "?" in the place of what is not printable
// ASCII.
func Printable(s string, most int) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s[:min(len(s), most)])
}
