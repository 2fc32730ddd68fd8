// Command standin runs the checkers' stand-in.
package main

import "github.com/sluicegate/sluice/functions/standin"

func main() { standin.Main() }
