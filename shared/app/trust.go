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
	ID       string // of the app's trusts, e.g. "t3xk9"
	Provider Provider
	Issuer   string // as its tokens name it, e.g. "https://token.actions.githubusercontent.com"
	Audience string // whom the token is meant for; the webhook's URL unless told otherwise

	// Claims are patterns by the claim's name. "*" is any text without "/", "**" is any
	// text, all else is itself. There is at least one that says whose pipelines they are.
	Claims map[string]string

	CreatedAt time.Time
	CreatedBy string // username
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

// Check tells whether a trust is one: that it has an audience, and claims that are not
// open to all. Problem: invalid_trust, with the field.
func (t Trust) Check() error {
	if !slices.Contains(Providers(), t.Provider) {
		return flaw("provider", "provider is github, gitlab, forgejo or other.")
	}
	if t.Audience == "" || len(t.Audience) > maxAudience || Printable(t.Audience, maxAudience) != t.Audience {
		return flaw("audience", "audience is a text of 1 to %d visible characters.", maxAudience)
	}
	if len(t.Claims) == 0 || len(t.Claims) > maxClaims {
		return flaw("claims", "claims are 1 to %d patterns by their claims' names.", maxClaims)
	}
	owned := false
	for _, name := range slices.Sorted(maps.Keys(t.Claims)) {
		if err := checkClaim(name, t.Claims[name]); err != nil {
			return err
		}
		owned = owned || names(name, t.Claims[name])
	}
	if !owned {
		return flaw("claims", "One of the claims must say whose pipelines they are, without a pattern where the owner stands: %s.", strings.Join(slices.Sorted(maps.Keys(owners)), ", "))
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
	case strings.Trim(pattern, "*/") == "":
		return flaw("claims", "The claim %s would match anything.", name)
	}
	return nil
}

// names tells whether a claim's pattern says whose pipelines they are.
func names(claim, pattern string) bool {
	path, known := owners[claim]
	head, _, open := strings.Cut(pattern, "*")
	owner, _, parted := strings.Cut(head, "/")
	return known && (!open || path && parted && owner != "")
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
	if t.Check() != nil || t.Issuer != p.Issuer || !slices.Contains(p.Audience, t.Audience) {
		return false
	}
	for name, pattern := range t.Claims {
		if value, ok := p.Claims[name]; !ok || !matches(pattern, value) {
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
