// Command deploys runs the deploys function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/deploys" // registers it
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("deploys") }
