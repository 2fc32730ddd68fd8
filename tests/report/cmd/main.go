// Command cmd merges the sections in .local/report into tests/REPORT.md.
package main

import (
	"fmt"
	"os"

	"github.com/sluicegate/sluice/tests/report"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	root, err := report.Root()
	if err != nil {
		return err
	}
	return report.Merge(root)
}
