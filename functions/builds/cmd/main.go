// Command builds runs the builds function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/builds" // registers it
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("builds") }
