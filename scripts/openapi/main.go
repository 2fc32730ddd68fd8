// Command openapi generates shared/api/openapi.json, the OpenAPI document of the management API
// and the webhook.
//
// Paths, methods, roles, statuses and problems come from the table of routes. Schemas come from the
// Go types, and descriptions from their comments. The kind tag of a field selects its bounds, enum
// and example; see [kinds].
package main

import (
	"fmt"
	"os"
)

func main() {
	document, err := describe()
	if err == nil {
		err = os.WriteFile("shared/api/openapi.json", document, 0o644) //nolint:gosec // a public document
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
