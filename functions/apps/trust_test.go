package apps

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/functest"
)

func TestTrusts(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.createApp("hello")
	path := o.apps("/hello/webhook/trusts")
	const issuer = "https://token.actions.githubusercontent.com"
	good := `{"provider":"github","claims":{"repository":"org/repo","ref":"refs/heads/main"}}`

	o.as("vic").post(path, good).Refused(403, "forbidden")
	added := functest.Read[wire.Trust](o.as("dev").post(path, good), 201)
	if added.Issuer != issuer || !strings.HasSuffix(added.Audience, "/api/v1/webhook/"+o.project+"-prod/hello") || added.CreatedBy != "dev" || added.Claims["repository"] != "org/repo" ||
		added.Claims["event_name"] != "push|workflow_dispatch|schedule|release" || added.Open {
		t.Errorf("added: %+v", added)
	}
	o.as("dev").post(path, good).Refused(409, "already_exists")
	for body, code := range map[string]string{
		`{}`:                                   "missing_field",
		`{"claims":{"repository":"org/repo"}}`: "missing_field",
		`{"provider":"github","claims":{"ref":"x"}}`:                            "invalid_trust",
		`{"issuer":"https://ci.example.com","claims":{"sub":"x"}}`:              "invalid_trust",
		`{"provider":"hub","issuer":"` + issuer + `","claims":{"sub":"x"}}`:     "invalid_trust",
		`{"issuer":"` + issuer + `","audience":"a\u00e9","claims":{"sub":"x"}}`: "invalid_trust",
	} {
		o.as("dev").post(path, body).Refused(422, problem.Code(code))
	}
	open := functest.Read[wire.Trust](o.as("dev").post(path, `{"provider":"github","claims":{"repository":"org/open","event_name":"*"}}`), 201)
	if !open.Open {
		t.Errorf("trust in all events: got %+v, want open", open)
	}
	o.as("dev").delete(path + "/" + open.ID).Is(204)
	o.as("dev").post(path, `{"provider":"github","claims":{"repository":7}}`).Refused(400, "wrong_type")
	o.as("dev").post(path, `{"provider":"github","claim":{}}`).Refused(400, "unknown_field")
	listed := functest.Read[wire.List[wire.Trust]](o.as("vic").get(path), 200)
	if len(listed.Items) != 1 || listed.Items[0].ID != added.ID {
		t.Errorf("listed: %+v", listed)
	}
	if got := functest.Read[wire.Trust](o.as("vic").get(path+"/"+added.ID), 200); !got.CreatedAt.Equal(added.CreatedAt) || got.ID != added.ID || got.Audience != added.Audience {
		t.Errorf("trust: got %+v, want %+v", got, added)
	}
	o.as("vic").get(path+"/"+open.ID).Refused(404, "not_found")
	o.as("eve").get(path+"/"+added.ID).Refused(403, "forbidden")
	// Other changes of the app keep its trusts.
	o.as("dev").patch(o.apps("/hello"), `{"require_api_key":true}`).Is(200)
	if listed := functest.Read[wire.List[wire.Trust]](o.as("vic").get(path), 200); len(listed.Items) != 1 {
		t.Errorf("after a change of the app: %+v", listed)
	}
	o.as("vic").delete(path+"/"+added.ID).Refused(403, "forbidden")
	o.as("dev").delete(path + "/" + added.ID).Is(204)
	o.as("dev").delete(path+"/"+added.ID).Refused(404, "not_found")
	if got := functest.Read[wire.Webhook](o.as("vic").get(o.apps("/hello/webhook")), 200); len(got.Issuers) != 1 || got.Issuers[0] != issuer {
		t.Errorf("issuers of the webhook: got %v", got.Issuers)
	}
}
