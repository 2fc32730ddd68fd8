package stack

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Table tells a person where everything is, and what to try first. The command line is
// where make up puts it.
func (i Info) Table() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(w, "  %s\t%s\n", name, value)
		}
	}
	row("Management API", i.BaseURL+"/api/v1")
	row("Console", i.ConsoleURL)
	row("Admin sign-in", i.Admin.Username+" / "+i.Admin.Password)
	if i.Demo != nil {
		row("Demo app", i.Demo.AppURL)
		row("Demo key", i.Demo.Key)
	}
	row("Checkers", strings.Join(i.Checkers, "  "))
	row("Kubernetes", "KUBECONFIG="+i.Kubeconfig)
	row("Firestore", "FIRESTORE_EMULATOR_HOST="+i.FirestoreEmulatorHost)
	row("Logs", i.LogsDir)
	_ = w.Flush() // a strings.Builder takes everything
	if i.Demo != nil {
		_, _ = fmt.Fprintf(&out, "\nTo copy, in another shell: refused, served, and signed in.\n\n  curl -i %s\n  curl -i -H 'X-API-Key: %s' %s\n"+
			"  echo %s | .local/sluice login %s --username %s --password-stdin\n",
			i.Demo.AppURL, i.Demo.Key, i.Demo.AppURL, i.Admin.Password, i.BaseURL, i.Admin.Username)
	}
	return out.String()
}
