package attack

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func routes() []string {
	var all []string
	for _, row := range api.Table() {
		all = append(all, row.Pattern())
	}
	slices.Sort(all)
	return all
}

// expectation is a request to a route and its expected response. Every role can send the request
// again.
type expectation struct {
	body   string // "" for none
	status int
	app    string     // in the path, if not the project's app
	need   api.Access // if it differs from the API table's
}

func expectations() map[string]expectation {
	const (
		project = "/api/v1/projects/{project}"
		env     = project + "/environments/{environment}"
		app     = env + "/apps/{app}"
		hook    = "/api/v1/webhook/{namespace}/{app}"
	)
	return map[string]expectation{
		"POST /api/v1/session":                                 {body: `{}`, status: 422},
		"GET /api/v1/session":                                  {body: "", status: 200},
		"DELETE /api/v1/session":                               {body: "", status: 204},
		"DELETE /api/v1/session/all":                           {body: "", status: 200},
		"PATCH /api/v1/users/{username}":                       {body: `{}`, status: 404},
		"DELETE /api/v1/users/{username}":                      {body: "", status: 404},
		"DELETE /api/v1/users/{username}/sessions":             {body: "", status: 404},
		"GET /api/v1/users/{username}":                         {body: "", status: 404},
		"GET /api/v1/users":                                    {body: "", status: 200},
		"POST /api/v1/users":                                   {body: `{}`, status: 422},
		"PUT /api/v1/users/{username}/password":                {need: api.Admin, body: `{}`, status: 422}, // of another user
		"GET /api/v1/projects":                                 {body: "", status: 200},
		"POST /api/v1/projects":                                {body: `{"name":"{project}"}`, status: 409},
		"GET /api/v1/host-reservations":                        {body: "", status: 200},
		"DELETE /api/v1/host-reservations/{host}":              {body: "", status: 404},
		"GET /api/v1/audit":                                    {body: "", status: 200},
		"GET /api/v1/docs":                                     {body: "", status: 200},
		"GET /api/v1/docs/{group}":                             {body: "", status: 200},
		"GET /api/v1/key":                                      {body: "", status: 0},
		"GET /api/v1/openapi.json":                             {body: "", status: 200},
		"GET " + project + "/audit":                            {body: "", status: 200},
		"GET " + project:                                       {body: "", status: 200},
		"PATCH " + project:                                     {body: `{}`, status: 200},
		"DELETE " + project:                                    {body: "", status: 409}, // has environments
		"GET " + project + "/members":                          {body: "", status: 200},
		"PUT " + project + "/members":                          {body: `{members}`, status: 200},
		"GET " + project + "/members/{username}":               {body: "", status: 404},
		"DELETE " + project + "/members/{username}":            {body: "", status: 404},
		"GET " + project + "/tokens":                           {body: "", status: 200},
		"POST " + project + "/tokens":                          {body: `{}`, status: 422},
		"GET " + project + "/tokens/{token_id}":                {body: "", status: 404},
		"DELETE " + project + "/tokens/{token_id}":             {body: "", status: 404},
		"GET " + project + "/environments":                     {body: "", status: 200},
		"POST " + project + "/environments":                    {body: `{"name":"{environment}"}`, status: 409},
		"GET " + env:                                           {body: "", status: 200},
		"DELETE " + env:                                        {body: "", status: 409}, // has apps
		"GET " + env + "/activity":                             {body: "", status: 200},
		"GET " + env + "/apps":                                 {body: "", status: 200},
		"POST " + env + "/apps":                                {body: `{}`, status: 422},
		"GET " + app:                                           {body: "", status: 200},
		"PATCH " + app:                                         {body: `{}`, status: 200},
		"DELETE " + app:                                        {body: "", status: 404, app: "ghost"},
		"GET " + app + "/gate/forecast":                        {body: "", status: 200},
		"PUT " + app + "/git-source":                           {body: `{}`, status: 422},
		"DELETE " + app + "/git-source":                        {body: "", status: 404},
		"GET " + app + "/webhook":                              {body: "", status: 200},
		"POST " + app + "/webhook":                             {body: "", status: 200},
		"DELETE " + app + "/webhook":                           {body: "", status: 204},
		"GET " + app + "/webhook/deliveries":                   {body: "", status: 200},
		"GET " + app + "/webhook/trusts":                       {body: "", status: 200},
		"POST " + app + "/webhook/trusts":                      {body: `{}`, status: 422},
		"GET " + app + "/webhook/trusts/{trust_id}":            {body: "", status: 404},
		"DELETE " + app + "/webhook/trusts/{trust_id}":         {body: "", status: 404},
		"POST " + app + "/webhook/test":                        {body: "", status: 200}, // the previous POST enabled it
		"GET " + env + "/plans":                                {body: "", status: 200},
		"POST " + env + "/plans":                               {body: `{}`, status: 422},
		"GET " + env + "/plans/{plan_id}":                      {body: "", status: 200},
		"PATCH " + env + "/plans/{plan_id}":                    {body: `{}`, status: 200},
		"DELETE " + env + "/plans/{plan_id}":                   {body: "", status: 409}, // used by a key
		"POST " + env + "/plans/{plan_id}/forecast":            {body: `{}`, status: 200},
		"GET " + env + "/api-keys":                             {body: "", status: 200},
		"POST " + env + "/api-keys":                            {body: `{}`, status: 422},
		"POST " + env + "/api-keys/bulk":                       {body: `{}`, status: 422},
		"GET " + project + "/api-keys":                         {body: "", status: 200},
		"POST " + project + "/api-keys/find":                   {body: `{}`, status: 422},
		"GET " + env + "/usage":                                {body: "", status: 200},
		"GET " + env + "/usage.csv":                            {body: "", status: 200},
		"GET " + project + "/api-keys/{key_id}":                {body: "", status: 200},
		"PATCH " + project + "/api-keys/{key_id}":              {body: `{}`, status: 200},
		"POST " + project + "/api-keys/{key_id}/revoke":        {body: "", status: 200},
		"POST " + project + "/api-keys/{key_id}/rotate":        {body: "", status: 200},
		"POST " + project + "/api-keys/{key_id}/quota/release": {body: "", status: 200},
		"GET " + project + "/api-keys/{key_id}/usage":          {body: "", status: 200},
		"POST /api/v1/leaks":                                   {body: `[]`, status: 0},
		"POST /api/v1/leaks/report":                            {body: `{}`, status: 422},
		"GET " + project + "/changes/{change_id}":              {body: "", status: 404},
		"GET " + project + "/requests/{request_id}":            {body: "", status: 200},
		"GET " + app + "/deployments":                          {body: "", status: 200},
		"GET " + app + "/deployments/{revision}":               {body: "", status: 200},
		"POST " + app + "/deployments":                         {body: `{}`, status: 422},
		"POST " + app + "/rollback":                            {body: "", status: 409}, // no previous revision
		"POST " + app + "/promote":                             {body: `{}`, status: 422},
		"GET " + app + "/builds":                               {body: "", status: 200},
		"POST " + app + "/builds":                              {body: "", status: 409}, // no git source
		"GET " + app + "/builds/{build}":                       {body: "", status: 404},
		"POST " + hook:                                         {body: `{}`, status: 0},
		"GET " + hook + "/deployments/{revision}":              {body: "", status: 0},
		"GET " + hook + "/builds/{build}":                      {body: "", status: 0},
	}
}

type role struct {
	name     string
	token    string
	password string
	username string
}

// project has a member and a service token of each role, an app, a plan and a key.
type project struct {
	site   *stacktest.Site
	roles  []role // anonymous first, admin last
	tokens []role
	ended  []role // revoked and expired service tokens
	values map[string]string
}

func newProject(t *testing.T) *project {
	t.Helper()
	s := stacktest.New(t, world)
	p := &project{site: s, roles: []role{{name: "anonymous"}}}
	var members []wire.Member
	for _, name := range []string{"outsider", "viewer", "developer", "owner", "admin"} {
		username, password := name+"-"+s.Project, "password of "+name
		if _, err := s.Client.CreateUser(t.Context(), username, password, name == "admin"); err != nil {
			t.Fatal(err)
		}
		if name != "outsider" && name != "admin" {
			members = append(members, wire.Member{Username: username, Role: name})
		}
		p.roles = append(p.roles, role{name: name, username: username, password: password})
	}
	check.OK(t, s.Client.SetMembers(t.Context(), s.Project, members))
	body, err := json.Marshal(wire.SetMembers{Members: members})
	check.OK(t, err)
	s.App("hello")
	s.Settled("hello", 1, "live")
	k := s.AnyKey()
	p.values = map[string]string{
		"{project}": s.Project, "{environment}": s.Env, "{namespace}": s.Project + "-" + s.Env, "{app}": "hello",
		"{plan_id}": k.Plan, "{key_id}": k.ID, "{build}": "1", "{change_id}": "7ff9ad4c0d7a3f2fabcdefgh2345", "{request_id}": "nobodys-request", "{revision}": "1", "{host}": "nobody.example.com", "{username}": "someone-else", "{token_id}": "token-000000000000", "{trust_id}": "trust-aaaaaaaaaa", "{group}": "keys", "{members}": string(body),
	}
	for _, name := range []string{"viewer", "developer", "owner"} {
		_, full := p.issue(t, "matrix-"+name, name, time.Hour)
		p.tokens = append(p.tokens, role{name: name, token: full})
	}
	id, revoked := p.issue(t, "revoked", "owner", time.Hour)
	if _, err := s.Client.RevokeToken(t.Context(), s.Project, id); err != nil {
		t.Fatal(err)
	}
	_, expired := p.issue(t, "expired", "owner", time.Second)
	p.ended = []role{{name: "revoked", token: revoked}, {name: "expired", token: expired}}
	for _, r := range p.ended {
		s.Until("the "+r.name+" token has ended", func() bool {
			return call(t, request{path: "/api/v1/session", token: r.token}).Status == http.StatusUnauthorized
		})
	}
	return p
}

func (p *project) issue(t testing.TB, name, role string, life time.Duration) (id, full string) {
	t.Helper()
	ends := time.Now().Add(life).UTC().Format(time.RFC3339Nano)
	token, bearer, err := p.site.Client.CreateToken(t.Context(), p.site.Project, wire.CreateToken{Name: &name, Role: &role, ExpiresAt: &ends})
	check.OK(t, err)
	return token.ID, string(bearer)
}

func (p *project) signIn(t *testing.T, r role) string {
	t.Helper()
	if r.username == "" {
		return ""
	}
	return bearer(t, r.username, r.password)
}

func (p *project) fill(text string) string {
	for name, value := range p.values {
		text = strings.ReplaceAll(text, name, value)
	}
	return text
}

func (p *project) ask(t *testing.T, route string, e expectation, token string) int {
	t.Helper()
	if e.app != "" {
		route = strings.ReplaceAll(route, "{app}", e.app)
	}
	method, path, _ := strings.Cut(p.fill(route), " ")
	var a stacktest.Answer
	// Parallel tests can exhaust the address limit of failed webhook calls.
	p.site.Until("answer without limiting the address", func() bool {
		a = call(t, request{method: method, path: path, body: p.fill(e.body), token: token})
		return a.Status != http.StatusTooManyRequests
	})
	return a.Status
}

type request struct {
	method, path, body, token string
	header                    []string // pairs
}

func call(t testing.TB, q request) stacktest.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), cmp.Or(q.method, http.MethodGet), world.Info().BaseURL+q.path, bytes.NewReader([]byte(q.body)))
	check.OK(t, err)
	if q.token != "" {
		req.Header.Set("Authorization", "Bearer "+q.token)
	}
	if q.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(q.header); i += 2 {
		req.Header.Set(q.header[i], q.header[i+1])
	}
	a, err := stacktest.Do(stacktest.Ingress(world), req)
	check.OK(t, err)
	return a
}

func bearer(t testing.TB, username, password string) string {
	t.Helper()
	body, err := json.Marshal(wire.SignIn{Username: &username, Password: &password})
	check.OK(t, err)
	a := call(t, request{method: http.MethodPost, path: "/api/v1/session", body: string(body)})
	var s wire.OpenedSession
	if err := json.Unmarshal([]byte(a.Body), &s); err != nil || s.Token == "" {
		t.Fatalf("sign in %s: got %d %s", username, a.Status, a.Body)
	}
	return s.Token
}

func TestRoles(t *testing.T) {
	t.Parallel()
	all, want := routes(), expectations()
	for route := range want {
		if !slices.Contains(all, route) {
			t.Errorf("unknown route %s in expectations", route)
		}
	}
	needs, people := map[string]api.Access{}, map[string]bool{}
	for _, row := range api.Table() {
		needs[row.Pattern()], people[row.Pattern()] = row.Need, row.People
	}
	own, other := newProject(t), newProject(t)
	for i, r := range own.roles {
		own.roles[i].token = own.signIn(t, r)
	}
	for _, route := range revokeLast(all) {
		e, ok := want[route]
		if !ok {
			t.Errorf("%s: no entry in expectations", route)
			continue
		}
		if e.need == api.Nothing {
			e.need = needs[route]
		}
		cells := []string{"`" + route + "`", needed(e.need)}
		for i, r := range own.roles {
			got := own.ask(t, route, e, own.tokenFor(t, route, r))
			if route == api.EndOwnSessions.Pattern() {
				own.roles[i].token = own.signIn(t, r)
			}
			if w := e.want(r.name, true); got != w {
				t.Errorf("%s as %s: got %d, want %d", route, r.name, got, w)
			}
			cells = append(cells, strconv.Itoa(got))
		}
		cells = append(cells, elsewhere(t, route, e, own, other), asTokens(t, route, e, own, people[route]))
		roles.Row(cells)
	}
}

func revokeLast(all []string) []string {
	ends := func(route string) bool { return strings.HasSuffix(route, "/revoke") }
	return slices.Concat(slices.DeleteFunc(slices.Clone(all), ends), slices.DeleteFunc(slices.Clone(all), func(r string) bool { return !ends(r) }))
}

// tokenFor returns a new session for the route that ends it, and the role's session otherwise.
func (p *project) tokenFor(t *testing.T, route string, r role) string {
	t.Helper()
	if route == "DELETE /api/v1/session" {
		return p.signIn(t, r)
	}
	return r.token
}

// elsewhere calls a route of the project other as the members of own. It returns the distinct
// statuses, or "-" for routes without a project.
func elsewhere(t *testing.T, route string, e expectation, own, other *project) string {
	t.Helper()
	if !strings.Contains(route, "{project}") {
		return "-"
	}
	seen := map[string]bool{}
	for _, r := range append(own.roles[1:len(own.roles)-1:len(own.roles)-1], own.tokens...) {
		got := other.ask(t, route, e, r.token)
		if w := e.want(r.name, false); got != w {
			t.Errorf("%s as %s of another project: got %d, want %d", route, r.name, got, w)
		}
		seen[strconv.Itoa(got)] = true
	}
	var all []string
	for s := range seen {
		all = append(all, s)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// asTokens returns the statuses of the service tokens in the order of the roles, or one status if
// all are equal.
func asTokens(t *testing.T, route string, e expectation, own *project, people bool) string {
	t.Helper()
	var cells []string
	for _, r := range own.tokens {
		w := e.want(r.name, true)
		if people && w != http.StatusUnauthorized {
			w = http.StatusForbidden
		}
		got := own.ask(t, route, e, r.token)
		if got != w {
			t.Errorf("%s with a token of a %s: got %d, want %d", route, r.name, got, w)
		}
		cells = append(cells, strconv.Itoa(got))
	}
	for _, r := range own.ended {
		if got, w := own.ask(t, route, e, r.token), e.want("anonymous", true); got != w {
			t.Errorf("%s with a token that is %s: got %d, want %d", route, r.name, got, w)
		}
	}
	if len(slices.Compact(slices.Clone(cells))) == 1 {
		return cells[0]
	}
	return strings.Join(cells, " ")
}

// needed returns the report's name of an access requirement.
func needed(n api.Access) string {
	if n == api.Token || n == api.Signature {
		return "no session"
	}
	return n.String()
}

// want returns a role's expected status. member reports whether the role belongs to the project.
func (e expectation) want(name string, member bool) int {
	has := map[string]api.Access{"viewer": api.Viewer, "developer": api.Developer, "owner": api.Owner, "admin": api.Admin}[name]
	if !member && name != "admin" {
		has = api.Nothing
	}
	switch {
	case e.need == api.Token, e.need == api.Holder, e.need == api.Signature:
		return http.StatusUnauthorized
	case e.need == api.Nothing:
		return e.status
	case name == "anonymous":
		return http.StatusUnauthorized
	case e.need == api.SignedIn, has >= e.need:
		return e.status
	}
	return http.StatusForbidden
}
