package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var everyCommand = []struct {
	name  string
	args  string // split at spaces; "_" stands for one within an argument
	stdin string
	local bool // sends no request
	file  bool // -o is a file
}{
	{name: "login", args: "login URL --username ada --password-stdin", stdin: "open sesame\n"},
	{name: "logout", args: "logout"},
	{name: "whoami", args: "whoami"},
	{name: "password", args: "password"},
	{name: "context list", args: "context list", local: true},
	{name: "context show", args: "context show", local: true},
	{name: "context use", args: "context use test", local: true},
	{name: "context set", args: "context set --project lab"},
	{name: "context delete", args: "context delete test --yes", local: true},
	{name: "project list", args: "project list"},
	{name: "project create", args: "project create shop"},
	{name: "project show", args: "project show shop"},
	{name: "project update", args: "project update shop --leak-policy revoke"},
	{name: "project delete", args: "project delete shop --confirm shop"},
	{name: "environment list", args: "environment list"},
	{name: "environment create", args: "environment create prod"},
	{name: "environment delete", args: "environment delete prod --yes"},
	{name: "member list", args: "member list"},
	{name: "member set", args: "member set bob developer"},
	{name: "member remove", args: "member remove bob --yes"},
	{name: "token create", args: "token create nightly --role developer --expires 90d"},
	{name: "token create quiet", args: "token create nightly --role developer --quiet"},
	{name: "token list", args: "token list"},
	{name: "token revoke", args: "token revoke nightly --yes"},
	{name: "plan list", args: "plan list"},
	{name: "plan create", args: "plan create Starter --rate 0.5 --burst 5 --quota 1000 --quota-period day"},
	{name: "plan create hard", args: "plan create Metered --rate 20 --burst 40 --quota 1000000 --quota-period month --quota-mode hard"},
	{name: "plan show", args: "plan show plan-starter"},
	{name: "plan show hard", args: "plan show plan-metered"},
	{name: "plan forecast", args: "plan forecast plan-starter --quota 500"},
	{name: "plan forecast none", args: "plan forecast plan-metered --quota 500"},
	{name: "plan update", args: "plan update plan-starter --rate 20 --no-quota"},
	{name: "plan update hard", args: "plan update plan-metered --quota-mode hard"},
	{name: "plan delete", args: "plan delete plan-starter --yes"},
	{name: "status", args: "status"},
	{name: "key create", args: "key create --plan plan-starter --name Checkout_team --app hello --app site --expires 2026-03-19"},
	{name: "key create name", args: "key create Checkout_team --plan plan-starter --no-wait"},
	{name: "key create quiet", args: "key create --plan plan-starter --quiet"},
	{name: "key list", args: "key list"},
	{name: "key list all", args: "key list --all-environments"},
	{name: "key list filtered", args: "key list --status active --plan plan-starter --app hello"},
	{name: "key find", args: "key find", stdin: "sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"},
	{name: "key report-leak", args: "key report-leak - --url https://git.example.com/x", stdin: "sluice_ab12cd34_0123456789abcdefghijABCDEFGHIJ0123456789"},
	{name: "key show leaked", args: "key show key-le4k3d00"},
	{name: "key show", args: "key show key-ab12cd34"},
	{name: "key show name", args: "key show Checkout_team"},
	{name: "key update", args: "key update key-ab12cd34 --name n --all-apps --never-expires"},
	{name: "key disable", args: "key disable key-ab12cd34"},
	{name: "key enable", args: "key enable key-ab12cd34"},
	{name: "key revoke", args: "key revoke key-ab12cd34 --yes"},
	{name: "key bulk", args: "key bulk --unused-for 90d --disable --yes"},
	{name: "key bulk dry run", args: "key bulk --tag batch --plan plan-unlimited --dry-run"},
	{name: "key rotate", args: "key rotate key-ab12cd34 --grace 1h"},
	{name: "quota release", args: "quota release key-ab12cd34 --yes"},
	{name: "key rotate again", args: "key rotate key-zz99yy88"},
	{name: "key revoke no wait", args: "key revoke key-ab12cd34 --yes --no-wait"},
	{name: "change", args: "change 7ff9ad4c"},
	{name: "change waiting", args: "change 7ff9ad4d"},
	{name: "request explain", args: "request explain 7Q2ZLOKXH3BD"},
	{name: "request explain nothing", args: "request explain nobodys"},
	{name: "key usage", args: "key usage key-ab12cd34"},
	{name: "key usage window", args: "key usage key-ab12cd34 --from 2026-03-11 --to 2026-03-14"},
	{name: "key usage days", args: "key usage key-ab12cd34 --days 3"},
	{name: "key usage all", args: "key usage key-ab12cd34 --all"},
	{name: "usage export", args: "usage export --from 2026-03-01 --per day", file: true},
	{name: "app create", args: "app create hello --image registry.example.com/shop/hello:v1 --port 8080"},
	{name: "app create git", args: "app create site --repository https://git.example.com/shop/site --path web --host site.example.com"},
	{name: "app list", args: "app list"},
	{name: "app open", args: "app open hello"},
	{name: "app show", args: "app show site"},
	{name: "app delete", args: "app delete hello --yes"},
	{name: "app delete with keys", args: "app delete site --yes"},
	{name: "app update", args: "app update hello --image registry.example.com/shop/hello:v2"},
	{name: "app update wait", args: "app update hello --image registry.example.com/shop/hello:v2 --wait"},
	{name: "app history", args: "app history hello"},
	{name: "app history limit", args: "app history hello --limit 1"},
	{name: "app rollback", args: "app rollback hello"},
	{name: "app rollback revision", args: "app rollback hello --revision 3"},
	{name: "app promote", args: "app promote hello --from staging --revision 2"},
	{name: "app gate on", args: "app gate on hello"},
	{name: "app gate on wait", args: "app gate on hello --wait"},
	{name: "app gate off", args: "app gate off hello --yes"},
	{name: "app gate preflight", args: "app gate preflight hello refuse"},
	{name: "app gate preflight wait", args: "app gate preflight hello app --wait"},
	{name: "app gate status", args: "app gate status hello"},
	{name: "app git set", args: "app git set site --repository https://git.example.com/shop/site --branch main"},
	{name: "app git remove", args: "app git remove site"},
	{name: "app webhook enable", args: "app webhook enable hello"},
	{name: "app webhook enable git", args: "app webhook enable site --ci curl"},
	{name: "app webhook status", args: "app webhook status hello"},
	{name: "app webhook status off", args: "app webhook status site"},
	{name: "app webhook disable", args: "app webhook disable hello"},
	{name: "app webhook deliveries", args: "app webhook deliveries hello"},
	{name: "app webhook deliveries none", args: "app webhook deliveries site"},
	{name: "app webhook trust add", args: "app webhook trust add hello --github shop/hello --ref refs/heads/main --workflow deploy"},
	{name: "app webhook trust list", args: "app webhook trust list hello"},
	{name: "app webhook trust list none", args: "app webhook trust list site"},
	{name: "app webhook trust remove", args: "app webhook trust remove hello trust-k3xq7m2pza"},
	{name: "app webhook test", args: "app webhook test hello"},
	{name: "app webhook test refused", args: "app webhook test site"},
	{name: "app build", args: "app build site"},
	{name: "app build wait", args: "app build site --commit 0123456789abcdef --wait"},
	{name: "app build list", args: "app build list site"},
	{name: "app build show", args: "app build show site 7"},
	{name: "activity", args: "activity"},
	{name: "activity filtered", args: "activity --kind deployments --actor webhook --since 7d"},
	{name: "audit", args: "audit"},
	{name: "audit filtered", args: "audit --since 7d --until 2026-03-14 --actor ada --action plan.update --resource projects/shop/ --limit 1"},
	{name: "audit installation", args: "audit --installation"},
	{name: "admin create-user", args: "admin create-user bob --password-stdin", stdin: "correct horse battery"},
	{name: "admin list-users", args: "admin list-users"},
	{name: "admin deactivate-user", args: "admin deactivate-user bob"},
	{name: "admin activate-user", args: "admin activate-user bob --yes"},
	{name: "admin remove-user", args: "admin remove-user bob --yes"},
	{name: "admin end-sessions", args: "admin end-sessions bob"},
	{name: "admin grant-admin", args: "admin grant-admin bob"},
	{name: "admin revoke-admin", args: "admin revoke-admin bob"},
	{name: "admin list-hosts", args: "admin list-hosts"},
	{name: "admin release-host", args: "admin release-host www.example.com --yes"},
	{name: "admin reset-password", args: "admin reset-password bob --password-stdin", stdin: "correct horse battery"},
	{name: "version", args: "version", local: true},
	{name: "completion", args: "completion tcsh", local: true},
}

func TestEveryCommand(t *testing.T) {
	t.Parallel()
	for _, tt := range everyCommand {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			fmt.Fprintf(&b, "$ sluice %s\n", tt.args)
			run := func(variant string, change func(*fake, *person), more ...string) {
				f := newFake(t, shop())
				p := newPerson(t, f.URL)
				p.stdin = tt.stdin
				if change != nil {
					change(f, p)
				}
				r := p.runs(append(split(tt.args, f.URL), more...)...)
				fmt.Fprintf(&b, "\n== %s\n", variant)
				if variant == "pipe" {
					for _, q := range f.requests() {
						fmt.Fprintf(&b, "> %s\n", q)
					}
				}
				b.WriteString(strings.ReplaceAll(strings.ReplaceAll(r.String(), f.URL, "URL"), host(f), "HOST"))
			}
			run("pipe", nil)
			run("terminal of 60 columns", func(_ *fake, p *person) { p.colour, p.width = true, 60 })
			if !tt.file {
				run("json", nil, "-o", "json")
				run("yaml", nil, "-o", "yaml")
			}
			if !tt.local {
				run("forbidden", func(f *fake, _ *person) {
					f.all = &answer{http.StatusForbidden, `{"code":"forbidden","message":"Your role does not allow this. Ask a project owner or an admin."}`}
				})
			}
			golden(t, "commands/"+strings.ReplaceAll(tt.name, " ", "-"), b.String())
		})
	}
}

func host(f *fake) string { return strings.ReplaceAll(strings.TrimPrefix(f.URL, "http://"), ":", "-") }

func split(args, url string) []string {
	var all []string
	for _, arg := range strings.Fields(args) {
		if arg == "URL" {
			arg = url
		}
		all = append(all, strings.ReplaceAll(arg, "_", " "))
	}
	return all
}

func TestEveryCommandHasAGoldenFile(t *testing.T) {
	t.Parallel()
	var leaves []string
	walk(Root(), func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() && cmd.Name() != "help" {
			leaves = append(leaves, strings.TrimPrefix(cmd.CommandPath(), "sluice "))
		}
	})
	for _, leaf := range leaves {
		found := false
		for _, tt := range everyCommand {
			found = found || strings.HasPrefix(tt.args+" ", leaf+" ")
		}
		if !found {
			t.Errorf("everyCommand lacks %q", leaf)
		}
	}
	if len(leaves) < 40 {
		t.Errorf("got %d commands, want at least 40", len(leaves))
	}
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		walk(c, visit)
	}
}
