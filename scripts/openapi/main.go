// Command openapi writes the OpenAPI description of the management API and of the
// webhook into shared/api, from the table of routes there.
//
// Everything in it comes from where it is true: paths, methods, roles, statuses and
// problems from the table of routes; fields from the Go types of requests and answers;
// what a field means from the comment beside it; limits, enums and examples from the
// kind that the field's tag names, see [kinds].
package main

import (
	"fmt"
	"os"
)

func main() {
	document, err := describe()
	if err == nil {
		err = os.WriteFile("shared/api/openapi.json", document, 0o644) //nolint:gosec // a page for everybody
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
