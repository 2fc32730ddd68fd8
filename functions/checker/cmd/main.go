// Command checker runs a checker.
package main

import "github.com/sluicegate/sluice/functions/checker"

func main() { checker.Main() }
