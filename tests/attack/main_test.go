// Package attack plays the attackers: hostile headers, paths, hosts, bodies, tokens
// and names against a running stack of its own, each with its row in tests/REPORT.md,
// and every management route with every role. What is tried and what must come of it
// stands in the row; a row whose test fails is a hole.
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

// portBase is the first of the stack's ports.
const portBase = 28280

const scannersKey = "first"

// How long a client may take, lowered so that tests run in seconds.
const (
	headerLimit = 2 * time.Second
	readLimit   = 3 * time.Second
)

var (
	world *stack.Stack
	ci    *issuers

	// scanner is a secret-scanning program that the stack trusts, with the key scannersKey.
	scanner = stacktest.NewScanner("scanner")

	book    = report.Open("attack")
	attacks = book.Tests("Attacks", "What is tried, and what must come of it.", []string{"attack", "must"}, "tried")

	roleBook = report.Open("roles")
	roles    = roleBook.Table("Role matrix",
		"Every route of the management API, as the functions register them, asked by every role in their own project and in another. "+
			"The figures are the answers' statuses; *other* stands for viewer, developer and owner in a project that is not theirs, and for service tokens of that one; "+
			"*tokens* are service tokens of a viewer, a developer and an owner. One that is revoked or expired gets what *anonymous* gets.",
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
		// Registries are asked as in production: only where the internet is.
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
	if stacktest.Elsewhere() { // some rows are skipped there; REPORT.md is about the local stack
		os.Exit(code)
	}
	os.Exit(roleBook.Close(book.Close(code)))
}
