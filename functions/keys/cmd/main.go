// Command keys runs the keys function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/keys" // registers it
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("keys") }
