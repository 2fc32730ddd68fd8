package apps

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/functest"
)

const (
	oneLabel  = "{app}-{namespace}.{domain}"
	twoLabels = "{app}.{namespace}.{domain}"
)

func TestAppHostIsChecked(t *testing.T) {
	t.Parallel()
	for _, good := range []string{oneLabel, twoLabels, "{namespace}-{app}.{domain}", "x-{app}--{namespace}-y.{domain}", "{app}-v1.run-{namespace}.{domain}"} {
		if err := checkAppHost(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "{app}", "hello.{domain}", "{app}.{domain}", "{namespace}.{domain}", "{app}-{namespace}", "{app}-{app}-{namespace}.{domain}",
		"{app}{namespace}.{domain}", "{namespace}{app}.{domain}", "{app}-{namespace}{domain}", "{domain}.{app}-{namespace}", "{app}-{namespace}.{domain}.com",
		"{app}-{namespace}-.{domain}", "{app}_{namespace}.{domain}", "{app}-{Namespace}.{domain}", "{app}-{namespace}-{region}.{domain}", "{{app}}-{namespace}.{domain}",
		"{namespace}.{app}.{domain}", "{app}-{namespace}.run.{domain}", "{app}.run.{namespace}.{domain}", ".{app}-{namespace}.{domain}", "x.{app}-{namespace}.{domain}",
		"*.{app}-{namespace}.{domain}", "{app} {namespace}.{domain}", "{app}`) || Host(`{namespace}.{domain}",
	} {
		if err := checkAppHost(bad); err == nil {
			t.Errorf("%q: got no error", bad)
		}
	}
}

func TestDefaultHost(t *testing.T) {
	t.Parallel()
	long := app.Ref{Namespace: strings.Repeat("n", 30) + "-prod", Name: strings.Repeat("a", 27)} // 63 with the hyphen
	tests := []struct {
		pattern string
		ref     app.Ref
		want    string // "" if rejected
	}{
		{oneLabel, app.Ref{Namespace: "shop-prod", Name: "hello"}, "hello-shop-prod.apps.example.com"},
		{twoLabels, app.Ref{Namespace: "shop-prod", Name: "hello"}, "hello.shop-prod.apps.example.com"},
		{oneLabel, long, long.Name + "-" + long.Namespace + ".apps.example.com"},
		{oneLabel, app.Ref{Namespace: long.Namespace, Name: long.Name + "a"}, ""},
		{oneLabel, app.Ref{Namespace: "internal-tools", Name: "admin"}, ""}, // reserved
		{twoLabels, app.Ref{Namespace: "internal-tools", Name: "admin"}, "admin.internal-tools.apps.example.com"},
		{twoLabels, app.Ref{Namespace: long.Namespace, Name: long.Name + "a"}, long.Name + "a." + long.Namespace + ".apps.example.com"},
	}
	for _, tt := range tests {
		c := Config{AppsDomain: "apps.example.com", AppHost: tt.pattern, ReservedHosts: []string{"admin-internal-tools.apps.example.com"}}
		got, err := c.host(nil, tt.ref)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s for %s: got %q, %v; want %q", tt.pattern, tt.ref, got, err, tt.want)
		}
	}
}

func TestAnothersHost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, name string // below the domain
		refused       bool   // for shop-prod
	}{
		{oneLabel, "hello-shop-prod", false},
		{oneLabel, "a-b-shop-prod", false}, // also the default of "a" in b-shop-prod
		{oneLabel, "v2.hello-shop-prod", false},
		{oneLabel, "hello.shop-prod", false}, // a host of an earlier pattern
		{oneLabel, "hello", false},
		{oneLabel, "my-shop", false}, // too short for a default
		{oneLabel, "hello-bank-prod", true},
		{oneLabel, "login.hello-bank-prod", true},
		{oneLabel, "hello.bank-prod", true},
		{oneLabel, "HELLO-BANK-PROD", true},
		{oneLabel, "a.b.hello-bank-prod", true},
		{oneLabel, "hello-shop-prod-eu", true},
		{oneLabel, "hello-myshop-prod", true},
		{oneLabel, "hello.notshop-prod", true},
		{oneLabel, "a.hello", true},
		{twoLabels, "hello.shop-prod", false},
		{twoLabels, "a.b.shop-prod", false},
		{twoLabels, "shop-prod", false},
		{twoLabels, "hello", false},
		{twoLabels, "hello.bank-prod", true},
		{twoLabels, "a.b.bank-prod", true},
		{twoLabels, "bank-prod", true}, // could set cookies for all of them
		{"run-{namespace}-{app}.{domain}", "run-shop-prod-hello", false},
		{"run-{namespace}-{app}.{domain}", "run-bank-prod-hello", true},
		{"run-{namespace}-{app}.{domain}", "bank-prod-hello", false},
	}
	for _, tt := range tests {
		c := Config{AppsDomain: "apps.example.com", AppHost: tt.pattern}
		host := tt.name + ".apps.example.com"
		if _, err := c.host(&host, app.Ref{Namespace: "shop-prod", Name: "x"}); (err != nil) != tt.refused {
			t.Errorf("%s with %s: got %v, want rejected %v", host, tt.pattern, err, tt.refused)
		}
	}
}

func TestPatternOfHosts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	before := o.createApp("first")
	o.cfg.AppHost = oneLabel
	o.start(o.cluster)
	if got := functest.Read[wire.App](o.as("dev").post(o.apps(""), `{"name":"hello","image":"a:1"}`), 201).Host; got != "hello-"+o.namespace()+".localhost" {
		t.Errorf("default host: got %s", got)
	}
	if got := functest.Read[wire.App](o.as("vic").get(o.apps("/first")), 200); got.Host != before.Host {
		t.Errorf("the changed pattern moved %s to %s", before.Host, got.Host)
	}

	// "a-x" in "{project}-prod", "a" in "x-{project}-prod".
	second := "x-" + o.project
	o.as("root").post("/projects", `{"name":"`+second+`"}`).Is(201)
	o.as("root").post("/projects/"+second+"/environments", `{"name":"prod"}`).Is(201)
	o.as("dev").post(o.apps(""), `{"name":"a-x","image":"a:1"}`).Is(201)
	at := "/projects/" + second + "/environments/prod/apps"
	refused := o.as("root").post(at, `{"name":"a","image":"a:1"}`)
	refused.Refused(409, "host_taken")
	if host := "a-x-" + o.namespace() + ".localhost"; !strings.Contains(string(refused.Body), host) {
		t.Errorf("the message does not contain %s: %s", host, refused.Body)
	}
	o.as("root").post(at, `{"name":"a","image":"a:1","host":"a-of-x.example.com"}`).Is(201)

	o.as("ada").post(o.at("/environments"), `{"name":"production"}`).Is(201)
	long, at := strings.Repeat("a", 40), o.at("/environments/production/apps")
	o.as("dev").post(at, `{"name":"`+long+`","image":"a:1"}`).Refused(422, "invalid_host")
	o.as("dev").post(at, `{"name":"`+long+`","image":"a:1","host":"long.localhost"}`).Is(201)
}
