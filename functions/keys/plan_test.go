package keys

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

func TestPlanLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	quota, period, mode := int64(1000), "week", "soft"
	want := wire.Plan{ID: "plan-starter-eu", Name: "Starter (EU)", Rate: 0.5, Burst: 5, Quota: &quota, QuotaPeriod: &period, QuotaMode: &mode}
	created := read[wire.Plan](w.do(http.MethodPost, prod+"/plans", `{"name":"Starter (EU)","rate":0.5,"burst":5,"quota":1000,"quota_period":"week"}`), http.StatusCreated)
	check.Equal(t, "created", want, created)
	at := prod + "/plans/plan-starter-eu"
	check.Equal(t, "read", want, w.as("vera", http.MethodGet, at, "").plan())
	w.do(http.MethodPost, prod+"/plans", `{"name":"starter eu","rate":1,"burst":1}`).Refused(http.StatusConflict, problem.AlreadyExists)
	w.do(http.MethodGet, staging+"/plans/plan-starter-eu", "").Refused(http.StatusNotFound, problem.NotFound)

	want.Name, want.Rate = "Renamed", 2
	check.Equal(t, "changed; the id stays", want, w.do(http.MethodPatch, at, `{"name":"Renamed","rate":2}`).plan())
	list := read[wire.List[wire.Plan]](w.do(http.MethodGet, prod+"/plans", ""), http.StatusOK)
	check.Equal(t, "list", wire.List[wire.Plan]{Items: []wire.Plan{want}}, list)
	if a := w.do(http.MethodDelete, at, ""); a.Status != http.StatusNoContent || len(a.Body) > 0 {
		t.Errorf("deleted: got %d %s", a.Status, a.Body)
	}
	w.do(http.MethodGet, at, "").Refused(http.StatusNotFound, problem.NotFound)
	w.do(http.MethodDelete, at, "").Refused(http.StatusNotFound, problem.NotFound)
	if a := w.do(http.MethodGet, prod+"/plans", ""); strings.TrimSpace(string(a.Body)) != `{"items":[],"next_page_token":""}` {
		t.Errorf("empty list: got %s", a.Body)
	}
}

func TestCreatePlanRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	with := func(field string) string { return `{"name":"Starter","rate":10,"burst":20,` + field + `}` }
	tests := []struct {
		name, body string
		status     int
		code       problem.Code
	}{
		{"no JSON", `{`, 400, problem.MalformedJSON},
		{"two values", `{} {}`, 400, problem.MalformedJSON},
		{"not UTF-8", "{\"name\":\"\xff\"}", 400, problem.MalformedJSON},
		{"a field twice", with(`"Name":"x"`), 400, problem.MalformedJSON},
		{"a list", `[]`, 400, problem.WrongType},
		{"an unknown field", with(`"color":"red"`), 400, problem.UnknownField},
		{"an ID", with(`"id":"plan-mine"`), 400, problem.UnknownField},
		{"rate in quotes", `{"name":"Starter","rate":"10","burst":20}`, 400, problem.WrongType},
		{"half a burst", `{"name":"Starter","rate":10,"burst":1.5}`, 400, problem.WrongType},
		{"burst past 64 bits", `{"name":"Starter","rate":10,"burst":1e30}`, 400, problem.WrongType},
		{"rate past a float", `{"name":"Starter","rate":1e999,"burst":1}`, 400, problem.WrongType},
		{"too large", `{"name":"` + strings.Repeat("a", 70_000) + `"}`, 413, problem.BodyTooLarge},
		{"nothing", `{}`, 422, problem.MissingField},
		{"no name", `{"rate":10,"burst":20}`, 422, problem.MissingField},
		{"null name", `{"name":null,"rate":10,"burst":20}`, 422, problem.MissingField},
		{"no rate", `{"name":"Starter","burst":20}`, 422, problem.MissingField},
		{"rate without burst", `{"name":"Starter","rate":10}`, 422, problem.MissingField},
		{"empty name", `{"name":"","rate":10,"burst":20}`, 422, problem.InvalidName},
		{"long name", `{"name":"` + strings.Repeat("a", 64) + `","rate":10,"burst":20}`, 422, problem.InvalidName},
		{"control character", `{"name":"a\u0007","rate":10,"burst":20}`, 422, problem.InvalidName},
		{"blank name", `{"name":"  ","rate":10,"burst":20}`, 422, problem.InvalidName},
		{"rate 0", `{"name":"Starter","rate":0,"burst":20}`, 422, problem.InvalidRate},
		{"negative rate", `{"name":"Starter","rate":-1,"burst":20}`, 422, problem.InvalidRate},
		{"huge rate", `{"name":"Starter","rate":1e300,"burst":20}`, 422, problem.InvalidRate},
		{"burst 0", `{"name":"Starter","rate":10,"burst":0}`, 422, problem.InvalidBurst},
		{"negative burst", `{"name":"Starter","rate":10,"burst":-5}`, 422, problem.InvalidBurst},
		{"huge burst", `{"name":"Starter","rate":10,"burst":1000001}`, 422, problem.InvalidBurst},
		{"quota without period", with(`"quota":5`), 422, problem.InvalidQuota},
		{"quota and null period", with(`"quota":5,"quota_period":null`), 422, problem.InvalidQuota},
		{"period without quota", with(`"quota_period":"day"`), 422, problem.InvalidQuota},
		{"quota 0", with(`"quota":0,"quota_period":"day"`), 422, problem.InvalidQuota},
		{"quota 0 alone", with(`"quota":0`), 422, problem.InvalidQuota},
		{"empty period alone", with(`"quota_period":""`), 422, problem.InvalidQuota},
		{"negative quota", with(`"quota":-1,"quota_period":"day"`), 422, problem.InvalidQuota},
		{"huge quota", with(`"quota":1000000000001,"quota_period":"day"`), 422, problem.InvalidQuota},
		{"unknown period", with(`"quota":5,"quota_period":"year"`), 422, problem.InvalidQuota},
		{"mode without quota", with(`"quota_mode":"hard"`), 422, problem.InvalidQuota},
		{"soft without quota", with(`"quota_mode":"soft"`), 422, problem.InvalidQuota},
		{"mode and period without quota", with(`"quota_period":"day","quota_mode":"hard"`), 422, problem.InvalidQuota},
		{"unknown mode", with(`"quota":5,"quota_period":"day","quota_mode":"firm"`), 422, problem.InvalidQuota},
		{"mode in another case", with(`"quota":5,"quota_period":"day","quota_mode":"Hard"`), 422, problem.InvalidQuota},
		{"empty mode", with(`"quota":5,"quota_period":"day","quota_mode":""`), 422, problem.InvalidQuota},
		{"mode of another type", with(`"quota":5,"quota_period":"day","quota_mode":true`), 400, problem.WrongType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { w.do(http.MethodPost, prod+"/plans", tt.body).Refused(tt.status, tt.code) })
	}
	if n := w.countPlans(); n != 0 {
		t.Errorf("stored plans: got %d", n)
	}
}

func TestCreatePlanNotJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do(http.MethodPost, prod+"/plans", "").Refused(http.StatusUnsupportedMediaType, problem.UnsupportedMediaType)
}

func TestCreatePlanMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct{ name, fields, want string }{
		{"none named", `"quota":5,"quota_period":"day"`, "5 day soft"},
		{"null", `"quota":5,"quota_period":"day","quota_mode":null`, "5 day soft"},
		{"soft", `"quota":5,"quota_period":"day","quota_mode":"soft"`, "5 day soft"},
		{"hard", `"quota":5,"quota_period":"day","quota_mode":"hard"`, "5 day hard"},
		{"null without a quota", `"quota":null,"quota_period":null,"quota_mode":null`, "none"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := fmt.Sprintf(`{"name":"%d","rate":10,"burst":20,%s}`, i, tt.fields)
			made := read[wire.Plan](w.do(http.MethodPost, prod+"/plans", body), http.StatusCreated)
			stored := w.do(http.MethodGet, prod+"/plans/"+made.ID, "").plan()
			if quotaText(made) != tt.want || quotaText(stored) != tt.want {
				t.Errorf("got %s in the response and %s stored, want %s", quotaText(made), quotaText(stored), tt.want)
			}
		})
	}
}

func quotaText(p wire.Plan) string {
	if p.Quota == nil && p.QuotaPeriod == nil && p.QuotaMode == nil {
		return "none"
	}
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	quota := "-"
	if p.Quota != nil {
		quota = fmt.Sprint(*p.Quota)
	}
	return quota + " " + text(p.QuotaPeriod) + " " + text(p.QuotaMode)
}

func TestUpdatePlanQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const create = `{"name":"%s","rate":10,"burst":20,"quota":1000,"quota_period":"month","quota_mode":"hard"}`
	tests := []struct {
		name, body, want string // want: quota, period and mode, or a problem code
	}{
		{"nothing", `{}`, "1000 month hard"},
		{"another quota", `{"quota":5}`, "5 month hard"},
		{"another period", `{"quota_period":"day"}`, "1000 day hard"},
		{"both", `{"quota":5,"quota_period":"week"}`, "5 week hard"},
		{"another mode", `{"quota_mode":"soft"}`, "1000 month soft"},
		{"the same mode", `{"quota_mode":"hard"}`, "1000 month hard"},
		{"null mode", `{"quota_mode":null}`, "1000 month soft"},
		{"all of it", `{"quota":5,"quota_period":"week","quota_mode":"soft"}`, "5 week soft"},
		{"null quota", `{"quota":null}`, "none"},
		{"null period", `{"quota_period":null}`, "none"},
		{"both null", `{"quota":null,"quota_period":null}`, "none"},
		{"all null", `{"quota":null,"quota_period":null,"quota_mode":null}`, "none"},
		{"null quota with a mode", `{"quota":null,"quota_mode":"hard"}`, "invalid_quota"},
		{"null quota with a period", `{"quota":null,"quota_period":"day"}`, "invalid_quota"},
		{"null period with a quota", `{"quota":5,"quota_period":null}`, "invalid_quota"},
		{"quota 0", `{"quota":0}`, "invalid_quota"},
		{"empty period", `{"quota_period":""}`, "invalid_quota"},
		{"both empty", `{"quota":0,"quota_period":""}`, "invalid_quota"},
		{"empty mode", `{"quota_mode":""}`, "invalid_quota"},
		{"unknown mode", `{"quota_mode":"firm"}`, "invalid_quota"},
		{"huge quota", `{"quota":1000000000001}`, "invalid_quota"},
		{"rate alone keeps the quota", `{"rate":11}`, "1000 month hard"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			read[wire.Plan](w.do(http.MethodPost, prod+"/plans", fmt.Sprintf(create, fmt.Sprint(i))), http.StatusCreated)
			at := prod + "/plans/plan-" + fmt.Sprint(i)
			a := w.do(http.MethodPatch, at, tt.body)
			if strings.HasPrefix(tt.want, "invalid") {
				a.Refused(http.StatusUnprocessableEntity, problem.Code(tt.want))
				tt.want = "1000 month hard"
			}
			if got := quotaText(w.do(http.MethodGet, at, "").plan()); got != tt.want {
				t.Errorf("quota: got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestUpdatePlanRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	before := w.storedPlan("plan-starter")
	tests := []struct {
		body   string
		status int
		code   problem.Code
	}{
		{`{"rate":0}`, 422, problem.InvalidRate},
		{`{"burst":0}`, 422, problem.InvalidBurst},
		{`{"burst":1000001}`, 422, problem.InvalidBurst},
		{`{"quota":5}`, 422, problem.InvalidQuota},
		{`{"quota_period":"day"}`, 422, problem.InvalidQuota},
		{`{"quota_mode":"hard"}`, 422, problem.InvalidQuota},
		{`{"quota_mode":"soft"}`, 422, problem.InvalidQuota},
		{`{"quota_mode":1}`, 400, problem.WrongType},
		{`{"name":""}`, 422, problem.InvalidName},
		{`{"name":"a\nb"}`, 422, problem.InvalidName},
		{`{"name":null}`, 422, problem.MissingField},
		{`{"rate":null}`, 422, problem.MissingField},
		{`{"burst":null}`, 422, problem.MissingField},
		{`{"rate":5,"burst":0}`, 422, problem.InvalidBurst},
		{`{"rate":"5"}`, 400, problem.WrongType},
		{`{"burst":0.5}`, 400, problem.WrongType},
		{`{"quota":true}`, 400, problem.WrongType},
		{`{"id":"plan-x"}`, 400, problem.UnknownField},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			w.do(http.MethodPatch, prod+"/plans/plan-starter", tt.body).Refused(tt.status, tt.code)
		})
	}
	if diff := cmp.Diff(before, w.storedPlan("plan-starter")); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestDeletePlanInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	w.makePlan(staging)
	w.makeKey()
	w.do(http.MethodDelete, prod+"/plans/plan-starter", "").Refused(http.StatusConflict, problem.PlanInUse)
	if a := w.do(http.MethodDelete, staging+"/plans/plan-starter", ""); a.Status != http.StatusNoContent {
		t.Errorf("other environment's plan: got %d %s", a.Status, a.Body)
	}
}

func TestPlanPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		read[wire.Plan](w.do(http.MethodPost, prod+"/plans", fmt.Sprintf(`{"name":"p%d","rate":1,"burst":1}`, i)), http.StatusCreated)
	}
	var got []string
	token := ""
	for {
		list := read[wire.List[wire.Plan]](w.do(http.MethodGet, prod+"/plans?page_size=2&page_token="+token, ""), http.StatusOK)
		for _, p := range list.Items {
			got = append(got, p.ID)
		}
		if token = list.NextPageToken; token == "" {
			break
		}
	}
	check.Equal(t, "listed", []string{"plan-p0", "plan-p1", "plan-p2", "plan-p3", "plan-p4"}, got)
	for _, query := range []string{"page_size=0", "page_size=-1", "page_size=501", "page_size=x", "page_size=99999999999999999999", "page_token=!", "page_token=Li4"} {
		w.do(http.MethodGet, prod+"/plans?"+query, "").Refused(http.StatusBadRequest, problem.InvalidPage)
	}
}
