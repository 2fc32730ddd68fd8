package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"slices"

	"github.com/sluicegate/sluice/shared/api"
)

// API serves rows of package api's table.
type API struct {
	*Mux
	sessions  Sessions
	resources Resources
	budgets   *budgets // nil bounds nothing
}

// NewAPI makes an API without routes. sessions and resources are not asked by rows
// that need nothing, or a webhook's token.
func NewAPI(log *slog.Logger, sessions Sessions, resources Resources) *API {
	return &API{Mux: New(log), sessions: sessions, resources: resources}
}

// Within bounds the calls of each principal. The zero budget bounds nothing.
func (a *API) Within(b Budget) *API {
	if b != (Budget{}) {
		a.budgets = newBudgets(b)
	}
	return a
}

// Serve answers a route by a function of who asks, what the path names and what was
// sent. What it returns is encoded with the row's status; [api.None] has no body.
func Serve[Req, Res any](a *API, route api.Route[Req, Res], answer func(context.Context, Scope, Req) (Res, error)) {
	a.Handle(route.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, in, err := begun[Req](a, route.Row, w, r)
		if err != nil {
			return err
		}
		out, err := answer(r.Context(), scope, in)
		if err != nil {
			return err
		}
		if route.Answer == reflect.TypeFor[api.None]() {
			w.WriteHeader(route.Status)
			return nil
		}
		return JSON(w, route.Status, out)
	})
}

// begun returns the start of a handler: the caller, the resources of the path, and what was
// sent. The caller is found out twice. Without a session its body is not read, and it may lose
// its rights while the body arrives. The limit of the body holds for every path.
func begun[Req any](a *API, row *api.Row, w http.ResponseWriter, r *http.Request) (scope Scope, in Req, err error) {
	var body []byte
	if row.HasBody() {
		if row.Need.Session() {
			if _, err = a.sessions.Session(r); err != nil {
				return scope, in, err
			}
		}
		if body, err = readBody(w, r); err != nil {
			return scope, in, err
		}
	}
	if scope, err = a.scope(row, w.Header(), r); err != nil {
		return scope, in, err
	}
	if slices.Contains(row.Headers, api.IfMatch) {
		if scope.Match, err = matchOf(r.Header); err != nil {
			return scope, in, err
		}
	}
	in, err = read[Req](row, r, body)
	return scope, in, err
}

// common are the headers that every handler may read: they describe the body and the
// connection. Package trace has read the client's address before.
//
//nolint:gochecknoglobals // a table; Go has no constant composite values
var common = []string{"Content-Type", "X-Forwarded-Proto"}

// declared returns the request with only the common headers and those that the row says that
// its handler reads. So a handler that reads another header finds nothing.
func declared(row *api.Row, r *http.Request) *http.Request {
	out := r.WithContext(r.Context()) // a copy
	out.Header = http.Header{}
	for _, name := range slices.Concat(common, row.Headers) {
		if values := r.Header.Values(name); len(values) > 0 {
			out.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return out
}

// ServeRaw answers a row whose handler takes the request itself, with the headers that the row
// declares.
func ServeRaw(a *API, row *api.Row, answer func(http.ResponseWriter, *http.Request, Scope) error) {
	a.Handle(row.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, err := a.scope(row, w.Header(), r)
		if err != nil {
			return err
		}
		return answer(w, declared(row, r), scope)
	})
}

// read returns what a row's request holds: the query of a GET, or else the JSON body.
func read[Req any](row *api.Row, r *http.Request, body []byte) (Req, error) {
	var in Req
	query := reflect.ValueOf(&api.None{}).Elem()
	if row.Method == http.MethodGet {
		query = reflect.ValueOf(&in).Elem()
	}
	if err := bindQuery(r.URL.RawQuery, query); err != nil {
		return in, err
	}
	if !row.HasBody() || row.Optional && len(body) == 0 {
		return in, nil
	}
	if err := requireJSON(r); err != nil {
		return in, err
	}
	return in, Unmarshal(body, &in)
}
