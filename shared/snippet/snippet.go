// Package snippet writes what a CI pipeline needs to deploy an app through its
// webhook, ready to paste: a GitHub Actions workflow, a GitLab CI job, and a plain call
// of curl.
//
// The plain call works as it is printed, token included: it deploys the image that
// the app runs already, until another is put in. In the pipelines the token is a
// secret of the CI system and the image is tagged with the commit. The token goes to
// curl through its standard input, so that it is never in the process list. Pipelines
// send an Idempotency-Key, which makes curl's retries harmless. All of them wait for the
// outcome and fail with it.
package snippet

import (
	"fmt"
	"strings"
)

// Hook is the webhook that snippets call.
type Hook struct {
	App   string // e.g. "hello"
	URL   string // e.g. "https://sluice.example.com/api/v1/webhook/shop-prod/hello"
	Token string
	Git   bool   // the app is built from its git source: the call names a commit, no image
	Image string // what the app runs, e.g. "registry.example.com/hello:v1"; "" before its first
	// Branch of the git source, whose pushes deploy; "" is main.
	Branch string
}

// CI is a system that a snippet is for.
type CI string

// The systems.
const (
	GitHub CI = "github"
	GitLab CI = "gitlab"
	Curl   CI = "curl"
)

// All lists the systems in the order in which their snippets are shown.
func All() []CI { return []CI{GitHub, GitLab, Curl} }

// Title says what a snippet is and where it goes.
func (c CI) Title() string {
	switch c {
	case GitHub:
		return "GitHub Actions: .github/workflows/deploy.yml, with the token as the secret SLUICE_WEBHOOK_TOKEN"
	case GitLab:
		return "GitLab CI: a job of .gitlab-ci.yml, with the token as the masked variable SLUICE_WEBHOOK_TOKEN"
	case Curl:
		return "curl, from any shell"
	}
	return string(c)
}

// For writes the snippet for a system.
func (h Hook) For(c CI) string {
	switch c {
	case GitHub:
		return h.github()
	case GitLab:
		return h.gitlab()
	case Curl:
		return h.curl()
	}
	return ""
}

// call are the commands that call the webhook, wait for what comes of it, and fail when
// that is nothing good. Their variables are set before: the token, and IMAGE or COMMIT.
// header is one more, or "". A deployment that a newer one has overtaken did not fail.
func (h Hook) call(header string) []string {
	lines := []string{
		`call() {`,
		`  printf 'X-Service-Token: %s' "$SLUICE_WEBHOOK_TOKEN" |`,
		`    curl --fail-with-body --silent --show-error --header @- --header 'Prefer: wait=300' "$@"`,
		`}`,
		`answer=$(call --header 'Content-Type: application/json' \`,
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
		`until case $answer in '{"status":"building"'* | '{"status":"rolling_out"'*) false ;; esac; do`,
		`  sleep 5`,
		`  answer=$(call --retry 5 "$(printf '%s' "$answer" | sed 's/.*"status_url":"\([^"]*\)".*/\1/')") || true`,
		`done`,
		`printf '%s\n' "$answer"`,
		`case $answer in '{"status":"failed"'*) false ;; '{"status":"'*) ;; *) false ;; esac`,
	)
}

func (h Hook) curl() string {
	lines := []string{"SLUICE_WEBHOOK_TOKEN=" + quote(h.Token)}
	if h.Git {
		lines = append(lines, "COMMIT=$(git rev-parse HEAD)")
	} else {
		lines = append(lines, "IMAGE="+quote(h.image()))
	}
	return strings.Join(append(lines, h.call("")...), "\n") + "\n"
}

func (h Hook) github() string {
	lines := []string{
		"name: deploy",
		"on:",
		"  push:",
		"    branches: [" + scalar(h.branch()) + "]",
		"jobs:",
		"  deploy:",
		"    runs-on: ubuntu-latest",
		"    steps:",
		"      - name: " + scalar("Deploy "+h.App),
		"        env:",
		"          SLUICE_WEBHOOK_TOKEN: ${{ secrets.SLUICE_WEBHOOK_TOKEN }}",
		"          COMMIT: ${{ github.sha }}",
	}
	if !h.Git {
		lines = append(lines, "          IMAGE: "+scalar(h.repository()+":${{ github.sha }}"))
	}
	lines = append(lines, "        run: |")
	for _, l := range h.call("Idempotency-Key: github-$GITHUB_RUN_ID-$GITHUB_RUN_ATTEMPT") {
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
		"  variables:",
		"    COMMIT: $CI_COMMIT_SHA",
	}
	if !h.Git {
		lines = append(lines, "    IMAGE: "+scalar(h.repository()+":$CI_COMMIT_SHA"))
	}
	lines = append(lines, "  script:", "    - |")
	for _, l := range h.call("Idempotency-Key: gitlab-$CI_JOB_ID") {
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
