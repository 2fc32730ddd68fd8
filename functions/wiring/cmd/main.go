// Command wiring runs the wiring function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/wiring" // registers it
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("wiring") }
