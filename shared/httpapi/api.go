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
	budgets   *budgets // nil for no limit
}

// NewAPI returns an API without routes.
func NewAPI(log *slog.Logger, sessions Sessions, resources Resources) *API {
	return &API{Mux: New(log), sessions: sessions, resources: resources}
}

// Within limits the calls of each principal. The zero budget sets no limit.
func (a *API) Within(b Budget) *API {
	if b != (Budget{}) {
		a.budgets = newBudgets(b)
	}
	return a
}

// Serve registers the handler of a route. The handler receives the scope and the decoded request.
// Its result becomes the JSON body of the response; [api.None] means no body.
func Serve[Req, Res any](a *API, route api.Route[Req, Res], answer func(context.Context, Scope, Req) (Res, error)) {
	a.Handle(route.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, in, err := prepare[Req](a, route.Row, w, r)
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
		return WriteJSON(w, route.Status, out)
	})
}

// prepare returns the scope and the decoded request. It authenticates the caller twice if there is
// a body: before reading it, to read no bodies of unauthenticated clients, and afterwards, since
// the caller may have lost access in the meantime.
func prepare[Req any](a *API, row *api.Row, w http.ResponseWriter, r *http.Request) (scope Scope, in Req, err error) {
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

// common contains the headers that all handlers may read. They describe the body and the
// connection.
//
//nolint:gochecknoglobals // a constant table
var common = []string{"Content-Type", "X-Forwarded-Proto"}

// declared returns a copy of the request with only the common headers and those in the row. A
// handler thus cannot read a header that the OpenAPI document does not mention.
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

// ServeRaw registers a handler that processes the request itself. It receives only the headers that
// the row declares.
func ServeRaw(a *API, row *api.Row, answer func(http.ResponseWriter, *http.Request, Scope) error) {
	a.Handle(row.Pattern(), func(w http.ResponseWriter, r *http.Request) error {
		scope, err := a.scope(row, w.Header(), r)
		if err != nil {
			return err
		}
		return answer(w, declared(row, r), scope)
	})
}

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
