package snippet

import "strings"

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
