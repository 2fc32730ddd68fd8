// Command apps runs the apps function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/apps" // registers it
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("apps") }
