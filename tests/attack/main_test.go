// Package attack attacks a running stack, and calls every management route as every role.
// tests/REPORT.md lists the attacks and their expected results.
package attack

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/long"
	"github.com/sluicegate/sluice/tests/report"
	"github.com/sluicegate/sluice/tests/stacktest"
)

const portBase = 28280

const scannersKey = "first"

// Limits for slow clients, reduced so that tests take seconds.
const (
	headerLimit = 2 * time.Second
	readLimit   = 3 * time.Second
)

var (
	world *stack.Stack
	ci    *issuers

	// scanner is a trusted secret-scanning program that signs with scannersKey.
	scanner = stacktest.NewScanner("scanner")

	book    = report.Open("attack")
	attacks = book.Tests("Attacks", "These tests attack a running installation.", []string{"attack", "expected"}, "measured")

	roleBook = report.Open("roles")
	roles    = roleBook.Table("Role matrix",
		"The table contains the status that each role gets from every route of the management API. "+
			"*Other* stands for the viewer, developer and owner of another project, and for its service tokens. "+
			"*Tokens* stands for the service tokens with the roles viewer, developer and owner, with one status if all get the same. "+
			"Revoked and expired tokens count as *anonymous*.",
		[]string{"route", "needs", "anonymous", "outsider", "viewer", "developer", "owner", "admin", "other", "tokens"})
)

func TestMain(m *testing.M) {
	code := stacktest.Main(m, func(_ string, o *stack.Options) error {
		o.PortBase = portBase
		o.Race = long.Enabled()
		limits := map[string]string{"HEADER_SECONDS": "2", "READ_SECONDS": "3"}
		o.Env = map[string]map[string]string{"checker": limits, "keys": limits}
		if err := scanner.Publish(scannersKey); err != nil {
			return err
		}
		o.Env["keys"] = map[string]string{"LEAK_PROGRAMS": scanner.Setting()}
		maps.Copy(o.Env["keys"], limits)
		// Private registries are rejected, as in production.
		for _, f := range []string{"apps", "deploys", "webhook", "builds"} {
			o.Env[f] = map[string]string{"REGISTRY_ALLOW_PRIVATE": "false"}
		}
		maps.Copy(o.Env["webhook"], limits)
		var believed []string
		var err error
		if ci, believed, err = newIssuers(fmt.Sprintf("127.0.0.1:%d", portBase+20)); err != nil {
			return err
		}
		for _, f := range []string{"apps", "webhook"} {
			o.Env[f]["OIDC_ISSUERS"] = strings.Join(believed, ",")
		}
		return nil
	}, func(s *stack.Stack) { world = s })
	if stacktest.Elsewhere() { // REPORT.md describes the local stack
		os.Exit(code)
	}
	os.Exit(roleBook.Close(book.Close(code)))
}
