package keys

import (
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestWrongFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	plan, key := prod+"/plans/plan-starter", shop+"/api-keys/"+w.makeKey().ID
	for _, c := range []struct {
		method, path, body string
		want               []string // fields and codes
	}{
		{http.MethodPost, prod + "/plans", `{}`, []string{"name missing_field", "rate missing_field", "burst missing_field"}},
		{http.MethodPost, prod + "/plans", `{"name":"\u0000","rate":0,"burst":0,"quota":5,"quota_period":"hour","quota_mode":"firm"}`, []string{
			"name invalid_name", "quota_mode invalid_quota", "rate invalid_rate", "burst invalid_burst", "quota_period invalid_quota",
		}},
		{http.MethodPost, prod + "/plans", `{"name":"\u0000","burst":1}`, []string{"rate missing_field", "name invalid_name"}},
		{http.MethodPost, prod + "/plans", `{"name":"A","rate":1,"burst":1,"quota":0}`, []string{"quota invalid_quota"}},
		{http.MethodPatch, plan, `{"name":null,"rate":0,"quota_mode":"hard"}`, []string{"name missing_field", "quota_mode invalid_quota", "rate invalid_rate"}},
		{http.MethodPost, prod + "/api-keys", `{"name":"\u0000","apps":["a","a"],"tags":["A"],"expires_at":"soon"}`, []string{
			"plan missing_field", "name invalid_name", "apps invalid_scope", "tags invalid_tag", "expires_at invalid_expiry",
		}},
		{http.MethodPost, prod + "/api-keys", `{"plan":"plan-none"}`, []string{"plan unknown_plan"}},
		{http.MethodPatch, key, `{"name":"\u0000","plan":"x","apps":["nobody"],"status":"gone","expires_at":"2020-01-01T00:00:00Z"}`, []string{
			"name invalid_name", "plan unknown_plan", "status invalid_status", "expires_at expiry_in_past",
		}},
		{http.MethodPost, prod + "/api-keys/bulk", `{}`, []string{"keys missing_field", "change missing_field"}},
		{http.MethodPost, prod + "/api-keys/bulk", `{"keys":["key-ab12cd34"],"change":{"add_tags":["A"]}}`, []string{"change.add_tags invalid_tag"}},
		{http.MethodPost, prod + "/api-keys/bulk", `{"keys":["key-ab12cd34"],"change":{"plan":"plan-none"}}`, []string{"change.plan unknown_plan"}},
		{http.MethodPost, key + "/rotate", `{"grace":"long"}`, []string{"grace invalid_grace"}},
		{http.MethodPost, prod + "/plans", `{"name":1,"rate":"fast","burst":1.5,"colour":"red","Size":2}`, []string{
			"name wrong_type", "rate wrong_type", "burst wrong_type", "Size unknown_field", "colour unknown_field",
		}},
		{http.MethodPatch, plan, `{"colour":"red","NAME":["a"]}`, []string{"name wrong_type", "colour unknown_field"}},
		{http.MethodGet, prod + "/plans?color=red&size=2", "", []string{"color unknown_parameter", "size unknown_parameter"}},
		{http.MethodPost, prod + "/plans", `[]`, nil},
		{http.MethodGet, prod + "/plans/plan-none", "", nil},
	} {
		a := w.do(c.method, c.path, c.body)
		told := read[wire.Error](a, a.Status)
		var got []string
		for _, e := range told.Errors {
			got = append(got, e.Field+" "+e.Code)
			if e.Message == "" {
				t.Errorf("%s: field %s: got no message", a.Call.Path, e.Field)
			}
		}
		check.Equal(t, a.Call.Path, c.want, got)
		if len(told.Errors) > 0 && (told.Code != told.Errors[0].Code || told.Message != told.Errors[0].Message) {
			t.Errorf("%s: got code %s, want that of the first field", a.Call.Path, told.Code)
		}
	}
	if w.countPlans() != 1 || w.countKeys() != 1 {
		t.Error("got stored resources, want none")
	}
}
