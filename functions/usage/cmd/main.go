// Command usage runs the usage function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/usage" // registers it
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("usage") }
