// Package snippet writes what a CI pipeline needs to deploy an app through its
// webhook, ready to paste: a GitHub Actions workflow, a GitLab CI job, and a plain call
// of curl.
//
// The plain call works as it is printed, token included: it deploys the image that
// the app runs already, until another is put in. In the pipelines the token is a
// secret of the CI system, or there is no secret and the system's own tokens prove who
// calls; the image is tagged with the commit. Tokens go to curl through its standard input,
// so that they are never in the process list. Pipelines send an Idempotency-Key, which makes
// curl's retries harmless. All of them wait for the outcome and fail with it.
package snippet

import (
	"fmt"
	"net/url"
	"strings"
)

// Hook is the webhook that snippets call.
type Hook struct {
	App   string // e.g. "hello"
	URL   string // e.g. "https://sluice.example.com/api/v1/webhook/shop-prod/hello"
	Token string
	// Audience is whom pipelines' tokens are meant for, where they prove the call and there
	// is no secret; "" otherwise.
	Audience string

	Git   bool   // the app is built from its git source: the call names a commit, no image
	Image string // what the app runs, e.g. "registry.example.com/hello:v1"; "" before its first
	// Branch of the git source, whose pushes deploy; "" is main.
	Branch string
}

// CI is a system that a snippet is for.
type CI string

// The systems.
const (
	GitHub  CI = "github"
	GitLab  CI = "gitlab"
	Forgejo CI = "forgejo"
	Curl    CI = "curl"
)

// All lists the systems in the order in which their snippets are shown.
func All() []CI { return []CI{GitHub, GitLab, Curl} }

// place says what a snippet is and where it goes.
func (c CI) place() string {
	switch c {
	case GitHub:
		return "GitHub Actions: .github/workflows/deploy.yml"
	case GitLab:
		return "GitLab CI: a job in .gitlab-ci.yml"
	case Forgejo:
		return "Forgejo Actions: .forgejo/workflows/deploy.yml"
	case Curl:
		return "curl, from any shell"
	}
	return string(c)
}

// Title says what a snippet for a system is, where it goes, and what it needs.
func (h Hook) Title(c CI) string {
	switch {
	case h.keyless() && c == Curl:
		return c.place() + ", with the pipeline's token as SLUICE_ID_TOKEN"
	case h.keyless():
		return c.place() + ", without any secret"
	case c == GitHub, c == Forgejo:
		return c.place() + ", with the token as the secret SLUICE_WEBHOOK_TOKEN"
	case c == GitLab:
		return c.place() + ", with the token as the masked variable SLUICE_WEBHOOK_TOKEN"
	}
	return c.place()
}

// keyless tells whether pipelines prove who they are by tokens of their provider.
func (h Hook) keyless() bool { return h.Audience != "" }

// For writes the snippet for a system.
func (h Hook) For(c CI) string {
	switch c {
	case GitHub, Forgejo:
		return h.github(c)
	case GitLab:
		return h.gitlab()
	case Curl:
		return h.curl()
	}
	return ""
}

// call are the commands that call the webhook, wait for what comes of it, and fail when
// that is nothing good. Their variables are set before: the token, and IMAGE or COMMIT.
// proof is printf's words for the header that proves the call, and header is one more, or
// "". A deployment that a newer one has overtaken did not fail.
func (h Hook) call(proof, header string) []string {
	lines := []string{
		`call() {`,
		`  printf ` + proof + ` |`,
		`    curl --fail-with-body --silent --show-error --header @- --header 'Prefer: wait=300' "$@"`,
		`}`,
		`response=$(call --header 'Content-Type: application/json' \`,
	}
	if header != "" {
		lines = append(lines, `  --header "`+header+`" --retry 5 \`)
	}
	data := `"{\"image\":\"$IMAGE\",\"commit\":\"$COMMIT\"}"`
	if h.Git {
		data = `"{\"commit\":\"$COMMIT\"}"`
	} else if header == "" {
		data = `"{\"image\":\"$IMAGE\"}"`
	}
	return append(lines,
		`  --data `+data+` \`,
		`  `+quote(h.URL)+`) || true`,
		`until case $response in '{"status":"building"'* | '{"status":"rolling_out"'*) false ;; esac; do`,
		`  sleep 5`,
		`  response=$(call --retry 5 "$(printf '%s' "$response" | sed 's/.*"status_url":"\([^"]*\)".*/\1/')") || true`,
		`done`,
		`printf '%s\n' "$response"`,
		`case $response in '{"status":"failed"'*) false ;; '{"status":"'*) ;; *) false ;; esac`,
	)
}

// proof is the header that proves a call, of which a variable holds the token.
func (h Hook) proof() string {
	if h.keyless() {
		return `'Authorization: Bearer %s' "$SLUICE_ID_TOKEN"`
	}
	return `'X-Service-Token: %s' "$SLUICE_WEBHOOK_TOKEN"`
}

// idToken is a function of the shell that asks the runner for a token of the job. Each call
// of the webhook has one of its own, since one counts once and ends within minutes.
func (h Hook) idToken() []string {
	return []string{
		`id_token() {`,
		`  printf 'Authorization: Bearer %s' "$ACTIONS_ID_TOKEN_REQUEST_TOKEN" |`,
		`    curl --fail --silent --show-error --retry 5 --header @- \`,
		`      "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=` + url.QueryEscape(h.Audience) + `" |`,
		`    sed 's/.*"value" *: *"\([^"]*\)".*/\1/'`,
		`}`,
	}
}

func (h Hook) curl() string {
	var lines []string
	if !h.keyless() {
		lines = append(lines, "SLUICE_WEBHOOK_TOKEN="+quote(h.Token))
	}
	if h.Git {
		lines = append(lines, "COMMIT=$(git rev-parse HEAD)")
	} else {
		lines = append(lines, "IMAGE="+quote(h.image()))
	}
	return strings.Join(append(lines, h.call(h.proof(), "")...), "\n") + "\n"
}

func (h Hook) github(c CI) string {
	script, proof := []string(nil), h.proof()
	if h.keyless() {
		script, proof = h.idToken(), `'Authorization: Bearer %s' "$(id_token)"`
	}
	script = append(script, h.call(proof, "Idempotency-Key: "+string(c)+"-$GITHUB_RUN_ID-$GITHUB_RUN_ATTEMPT")...)
	lines := []string{
		"name: deploy",
		"on:",
		"  push:",
		"    branches: [" + scalar(h.branch()) + "]",
		"jobs:",
		"  deploy:",
		"    runs-on: ubuntu-latest",
	}
	switch {
	case h.keyless() && c == Forgejo:
		lines = append(lines, "    enable-openid-connect: true")
	case h.keyless():
		lines = append(lines, "    permissions:", "      id-token: write")
	}
	lines = append(lines, "    steps:", "      - name: "+scalar("Deploy "+h.App), "        env:")
	if !h.keyless() {
		lines = append(lines, "          SLUICE_WEBHOOK_TOKEN: ${{ secrets.SLUICE_WEBHOOK_TOKEN }}")
	}
	lines = append(lines, "          COMMIT: ${{ github.sha }}")
	if !h.Git {
		lines = append(lines, "          IMAGE: "+scalar(h.repository()+":${{ github.sha }}"))
	}
	lines = append(lines, "        run: |")
	for _, l := range script {
		lines = append(lines, "          "+l)
	}
	return strings.Join(lines, "\n") + "\n"
}

func (h Hook) gitlab() string {
	lines := []string{
		"deploy:",
		"  stage: deploy",
		"  image: curlimages/curl:latest",
		"  rules:",
		"    - if: " + scalar(`$CI_COMMIT_BRANCH == "`+h.branch()+`"`),
	}
	if h.keyless() {
		lines = append(lines, "  id_tokens:", "    SLUICE_ID_TOKEN:", "      aud: "+scalar(h.Audience))
	}
	lines = append(lines, "  variables:", "    COMMIT: $CI_COMMIT_SHA")
	if !h.Git {
		lines = append(lines, "    IMAGE: "+scalar(h.repository()+":$CI_COMMIT_SHA"))
	}
	lines = append(lines, "  script:", "    - |")
	for _, l := range h.call(h.proof(), "Idempotency-Key: gitlab-$CI_JOB_ID") {
		lines = append(lines, "      "+l)
	}
	return strings.Join(lines, "\n") + "\n"
}

// image is one that the webhook takes.
func (h Hook) image() string {
	if h.Image != "" {
		return h.Image
	}
	return "registry.example.com/" + h.App + ":v1"
}

// repository is the image without its tag and digest.
func (h Hook) repository() string {
	image, _, _ := strings.Cut(h.image(), "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}

func (h Hook) branch() string {
	if h.Branch != "" {
		return h.Branch
	}
	return "main"
}

// quote makes a text one word of a shell, whatever is in it.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// scalar makes a text one value of YAML. JSON's strings are YAML's, but for what
// Printf's %q writes otherwise, which names of images and branches do not hold.
func scalar(s string) string { return fmt.Sprintf("%q", s) }
