package snippet

import "strings"

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
