// Command issuer prints the variables of a GitHub Actions job, for a shell to evaluate:
//
//	eval "$(go run ./emulators/issuer/cmd ISSUER REPOSITORY BRANCH WORKFLOW)"
package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/sluicegate/sluice/emulators/issuer"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "issuer: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: ISSUER REPOSITORY BRANCH WORKFLOW")
	}
	token, err := issuer.RequestToken(issuer.Claims(args[1], args[2], args[3]))
	if err != nil {
		return fmt.Errorf("create the job's token: %w", err)
	}
	for _, v := range [][2]string{
		{"GITHUB_ACTIONS", "true"},
		{"GITHUB_REPOSITORY", args[1]},
		{"GITHUB_REF", "refs/heads/" + args[2]},
		{"GITHUB_WORKFLOW", args[3]},
		{"GITHUB_RUN_ID", rand.Text()},
		{"GITHUB_RUN_ATTEMPT", "1"},
		{"GITHUB_JOB", "deploy"},
		{"GITHUB_ACTION", "sluice"},
		{"ACTIONS_ID_TOKEN_REQUEST_URL", args[0] + "/token?api-version=2.0"},
		{"ACTIONS_ID_TOKEN_REQUEST_TOKEN", token},
	} {
		fmt.Printf("export %s='%s'\n", v[0], strings.ReplaceAll(v[1], "'", `'\''`))
	}
	return nil
}
