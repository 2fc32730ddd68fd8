// Command framework serves the functions by the functions framework's own server, as a buildpack
// does.
package main

import (
	"fmt"
	"net"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"

	_ "github.com/sluicegate/sluice/functions/apps"
	_ "github.com/sluicegate/sluice/functions/builds"
	_ "github.com/sluicegate/sluice/functions/console"
	_ "github.com/sluicegate/sluice/functions/deploys"
	_ "github.com/sluicegate/sluice/functions/keys"
	_ "github.com/sluicegate/sluice/functions/rollup"
	_ "github.com/sluicegate/sluice/functions/session"
	_ "github.com/sluicegate/sluice/functions/usage"
	_ "github.com/sluicegate/sluice/functions/webhook"
	_ "github.com/sluicegate/sluice/functions/wiring"
)

func main() {
	address := net.JoinHostPort("127.0.0.1", os.Getenv("PORT"))
	go func() {
		for {
			if c, err := net.Dial("tcp", address); err == nil {
				_ = c.Close()
				fmt.Fprintf(os.Stderr, "{\"msg\":\"serving\",\"address\":%q}\n", address)
				return
			}
		}
	}()
	fmt.Fprintln(os.Stderr, funcframework.StartHostPort("127.0.0.1", os.Getenv("PORT")))
	os.Exit(1)
}
