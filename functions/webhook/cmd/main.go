// Command webhook runs the webhook function.
package main

import (
	_ "github.com/sluicegate/sluice/functions/webhook" // registers it
	"github.com/sluicegate/sluice/shared/funcmain"
)

func main() { funcmain.Main("webhook") }
