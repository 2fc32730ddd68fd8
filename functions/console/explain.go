package console

import (
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const requestField = "id"

type requestPage struct {
	Here  string
	ID    view.Input
	Form  view.Form
	Found *foundRequest
}

type foundRequest struct {
	wire.ExplainedRequest

	Denials []denialRow
	Silent  int // number of checkers that did not respond
}

type denialRow struct {
	wire.Denial

	AppPath string
	KeyPath string // "" if the key does not belong to the project
	KeyText string
}

// askRequest shows the form with the ID from the query. It does not search: the audit log records
// each search in the name of the user, and any site can link to this page.
func askRequest(r *request) error {
	return r.showRequest(requestPage{Form: view.FilledForm(requestField, r.URL.Query().Get(requestField))})
}

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
