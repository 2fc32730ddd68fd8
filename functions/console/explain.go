package console

import (
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

// requestField is the field and the query parameter with the request's ID, which is not secret.
const requestField = "id"

// requestPage says why a request was refused.
type requestPage struct {
	Here  string // path
	ID    view.Input
	Form  view.Form
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

// askRequest shows the form, filled with the ID of the query. It looks nothing up: the audit log
// records each search, and any site can link to this page.
func askRequest(r *request) error {
	return r.showRequest(requestPage{Form: view.FilledForm(requestField, r.URL.Query().Get(requestField))})
}

// findRequest shows what is known of the request that the form names.
func findRequest(r *request) error {
	id := strings.TrimSpace(r.PostForm.Get(requestField))
	p := requestPage{Form: view.FilledForm(requestField, id)}
	if id == "" {
		return r.showRequest(p)
	}
	found, err := r.api.ExplainRequest(r.Context(), r.project, id)
	switch {
	case client.HasCode(err, "invalid_parameter"):
		p.Form, _ = r.refused(err)
		p.Form.Err.Field = requestField
	case err != nil:
		return err
	default:
		p.Found = r.found(found)
	}
	return r.showRequest(p)
}

func (r *request) showRequest(p requestPage) error {
	p.Here = r.inProject("requests")
	p.ID = p.Form.Text(requestField, "Request ID", "The X-Request-Id header of the response that the client received.").Require().Placeholder("7Q2ZLOKXH3BDRJ4ZC5VJ6T5MWE")
	return r.show("requests", page{Status: p.Form.Status(), Title: "Denied requests"}, p)
}

func (r *request) found(e wire.ExplainedRequest) *foundRequest {
	f := &foundRequest{ExplainedRequest: e, Silent: e.Asked - e.Answered}
	for _, d := range e.Denials {
		row := denialRow{Denial: d, AppPath: r.inProject("environments", d.Environment, "apps", d.App)}
		if d.KeyID != nil {
			row.KeyPath, row.KeyText = r.inProject("environments", d.Environment, "api-keys", *d.KeyID), *d.KeyID
			if d.KeyName != "" {
				row.KeyText = string(d.KeyName)
			}
		}
		f.Denials = append(f.Denials, row)
	}
	return f
}
