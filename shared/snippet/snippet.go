// Package snippet generates CI snippets that deploy an app through its webhook: a GitHub or Forgejo
// Actions workflow, a GitLab CI job, and a curl command.
//
// The curl command contains the token and runs as printed: it deploys the app's current image. The
// pipelines use a secret of the CI system or an OpenID Connect token, and an image that is tagged
// with the commit. Tokens go to curl through standard input, so that the process list never shows
// them. All snippets wait for the result and fail if the deployment fails.
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
	// Audience is the audience of the pipelines' OpenID Connect tokens. "" if they use Token.
	Audience string

	Git    bool   // git app: calls contain a commit and no image
	Image  string // current image, e.g. "registry.example.com/hello:v1"; "" if there is none
	Branch string // branch whose pushes deploy; "" is main
}

// CI is the system of a snippet.
type CI string

// The systems.
const (
	GitHub  CI = "github"
	GitLab  CI = "gitlab"
	Forgejo CI = "forgejo"
	Curl    CI = "curl"
)

// All returns the systems whose snippets are shown by default, in display order.
func All() []CI { return []CI{GitHub, GitLab, Curl} }

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

// Title describes the snippet for a system.
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

func (h Hook) keyless() bool { return h.Audience != "" }

// For returns the snippet for a system.
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

// call returns the commands that call the webhook and wait for the result. A superseded deployment
// is not a failure. credential contains the printf arguments for the authentication header; header
// is an additional header, or "".
func (h Hook) call(credential, header string) []string {
	lines := []string{
		`call() {`,
		`  printf ` + credential + ` |`,
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

func (h Hook) credential() string {
	if h.keyless() {
		return `'Authorization: Bearer %s' "$SLUICE_ID_TOKEN"`
	}
	return `'X-Service-Token: %s' "$SLUICE_WEBHOOK_TOKEN"`
}

// idToken returns a shell function that requests a token from the runner. Each call of the webhook
// needs a new one, because a token is valid once and only for minutes.
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
	return strings.Join(append(lines, h.call(h.credential(), "")...), "\n") + "\n"
}

func (h Hook) github(c CI) string {
	script, credential := []string(nil), h.credential()
	if h.keyless() {
		script, credential = h.idToken(), `'Authorization: Bearer %s' "$(id_token)"`
	}
	script = append(script, h.call(credential, "Idempotency-Key: "+string(c)+"-$GITHUB_RUN_ID-$GITHUB_RUN_ATTEMPT")...)
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
	for _, l := range h.call(h.credential(), "Idempotency-Key: gitlab-$CI_JOB_ID") {
		lines = append(lines, "      "+l)
	}
	return strings.Join(lines, "\n") + "\n"
}

func (h Hook) image() string {
	if h.Image != "" {
		return h.Image
	}
	return "registry.example.com/" + h.App + ":v1"
}

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

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// scalar quotes a text as a YAML value. It differs from YAML only for characters that image and
// branch names do not contain.
func scalar(s string) string { return fmt.Sprintf("%q", s) }
