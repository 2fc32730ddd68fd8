// Command session runs the session function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/session" // registers it
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("session") }
