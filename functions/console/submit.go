package console

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
)

func (r *request) invalid(field, message string) view.Form {
	return view.Form{Values: r.PostForm, Err: &view.FormError{Status: http.StatusUnprocessableEntity, Message: message, Field: field}}
}

// refused returns the submitted form with the error of the API. ok is false if the session has
// ended.
func (r *request) refused(err error) (f view.Form, ok bool) {
	if client.HasCode(err, "unauthenticated") {
		return view.Form{}, false
	}
	f.Values = r.PostForm
	var e *client.Error
	if errors.As(err, &e) && e.Code != "" {
		f.Err = &view.FormError{Status: e.Status, Message: e.Message, Code: e.Code, Field: r.inputFor(e.Code, "")}
		for i, wrong := range e.Fields {
			name := r.inputFor(wrong.Code, wrong.Field)
			if i == 0 {
				f.Err.Field = name
			}
			f.Err.Add(name, wrong.Message)
		}
		return f, true
	}
	r.s.logAPIError(r.Context(), err)
	f.Err = &view.FormError{
		Status:  http.StatusBadGateway,
		Message: "The management API did not respond, so the result is unknown. Check the current state before you try again.",
	}
	return f, true
}

// inputFor returns the name of the input to which an API error belongs, or "" for the whole form.
func (r *request) inputFor(code, field string) string {
	names := []string{field[strings.LastIndexByte(field, '.')+1:]}
	switch code {
	case "already_exists", "name_in_scope", "namespace_taken", "namespace_not_empty":
		names = append(names, "name", "username")
	case "invalid_trust":
		names = append(names, "repository")
	}
	if i := slices.IndexFunc(names, r.PostForm.Has); i >= 0 {
		return names[i]
	}
	return ""
}

type ask func(r *request, f view.Form) error

func (r *request) again(err error, page ask) error {
	f, ok := r.refused(err)
	if !ok {
		return err
	}
	return page(r, f)
}

func isNotFound(err error) bool { return client.HasCode(err, "not_found") }

func (r *request) ask(tab string, p view.FormPage) error {
	return r.show("form", page{Status: p.Form.Status(), Title: p.Title, Tab: tab}, p)
}

func (r *request) confirm(tab string, c view.Confirmation) error {
	return r.show("confirm", page{Status: c.Form.Status(), Title: c.Title, Tab: tab}, c)
}

func (r *request) retyped(name string) bool { return r.PostForm.Get("name") == name }

const wrongName = "The name does not match. No changes were made."

func (r *request) typed(of view.Fields) view.Fields {
	all := view.Fields{}
	for name := range of {
		all[name] = r.PostForm.Get(name)
	}
	return all
}

type changes map[string]bool

func (c changes) notice(n notice) notice {
	if len(c) == 0 {
		return noticeNothingChanged
	}
	return n
}

// changes returns the fields that the user has changed. If someone else has changed one of them in
// the meantime, conflict is the form with an error, and nothing must be saved. A change between this
// comparison and the save is overwritten.
func (r *request) changes(current, typed view.Fields) (changed changes, conflict *view.Form) {
	changed = changes{}
	for _, name := range slices.Sorted(maps.Keys(current)) {
		was := r.PostForm.Get(view.OriginalPrefix + name)
		if typed[name] == was || typed[name] == current[name] {
			continue
		}
		if current[name] != was {
			f := r.invalid(name, "Another user changed this to "+quoted(current[name])+
				" in the meantime. No changes were saved. Reload the page and try again.")
			f.Err.Status = http.StatusConflict
			return nil, &f
		}
		changed[name] = true
	}
	return changed, nil
}

func quoted(s string) string {
	if s == "" {
		return "an empty value"
	}
	return "“" + s + "”"
}
