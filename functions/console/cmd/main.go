// Command console runs the console function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/console" // registers the function
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("console") }
