package console

import (
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// requestField is the query that names the request which is looked for: an id is no secret.
const requestField = "id"

// requestPage says why a request was refused.
type requestPage struct {
	Here  string // path
	ID    input
	Form  form
	Found *foundRequest // nil while none was asked for
}

// foundRequest is what the checkers remember of it.
type foundRequest struct {
	wire.ExplainedRequest

	Denials []denialRow
	Silent  int // checkers that did not answer
}

// denialRow is a denial, with where to do something about it.
type denialRow struct {
	wire.Denial

	AppPath string
	KeyPath string // "" of a key that is not the project's
	KeyText string // its name, or its id
}

// findRequest shows the form, and what is known of the request that it names.
func findRequest(r *request) error {
	id := strings.TrimSpace(r.URL.Query().Get(requestField))
	p := requestPage{Here: r.inProject("requests"), Form: form{Typed: url.Values{requestField: {id}}}}
	if id != "" {
		found, err := r.api.ExplainRequest(r.Context(), r.project, id)
		switch {
		case client.HasCode(err, "invalid_parameter"):
			p.Form, _ = r.refused(err, map[string]string{"invalid_parameter": requestField})
			p.Form.Typed = url.Values{requestField: {id}}
		case err != nil:
			return err
		default:
			p.Found = r.found(found)
		}
	}
	p.ID = p.Form.Text(requestField, "Request id", "The X-Request-Id of the answer that the client got.").Need().Like("7Q2ZLOKXH3BDRJ4ZC5VJ6T5MWE")
	return r.show("requests", page{Status: p.Form.Status(), Title: "Find a request"}, p)
}

func (r *request) found(e wire.ExplainedRequest) *foundRequest {
	f := &foundRequest{ExplainedRequest: e, Silent: e.Asked - e.Answered}
	for _, d := range e.Denials {
		row := denialRow{Denial: d, AppPath: r.inProject("environments", d.Environment, "apps", d.App)}
		if d.KeyID != nil {
			row.KeyPath, row.KeyText = r.inProject("environments", d.Environment, "api-keys", *d.KeyID), *d.KeyID
			if d.KeyName != nil && *d.KeyName != "" {
				row.KeyText = *d.KeyName
			}
		}
		f.Denials = append(f.Denials, row)
	}
	return f
}
