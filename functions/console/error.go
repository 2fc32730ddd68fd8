package console

import (
	"context"
	"errors"
	"net/http"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/reqctx"
)

type httpError struct {
	Status int
	Title  string
	Text   string
	Retry  bool // the same request may succeed later
	ID     string
}

func (e httpError) Error() string { return e.Title }

func notFound() httpError {
	return httpError{
		Status: http.StatusNotFound, Title: "Page not found",
		Text: "The page does not exist, or its content was deleted.",
	}
}

func denied() httpError {
	return httpError{
		Status: http.StatusForbidden, Title: "Access denied",
		Text: "Your role does not allow this, or the project does not exist. Ask an owner of the project for a role.",
	}
}

func unreadable() httpError {
	return httpError{
		Status: http.StatusBadRequest, Title: "Invalid form",
		Text: "The form is too large or damaged. No changes were made. Go back, reload the page and try again.",
	}
}

func (s *Service) fail(r *request, err error) {
	f, ferr := r.layout()
	if client.HasCode(err, "unauthenticated") || client.HasCode(ferr, "unauthenticated") {
		s.toSignIn(r.w, r.Request)
		return
	}
	if ferr != nil { // the project is unknown, but the user may be known
		f = layoutData{User: f.User, CSRF: f.CSRF}
	}
	s.writeError(r.w, r.Request, f, s.explain(r.Request, err))
}

// explain returns the error page for an error. It logs errors that the user cannot fix.
func (s *Service) explain(r *http.Request, err error) httpError {
	var own httpError
	if errors.As(err, &own) {
		return own
	}
	var e *client.Error
	if errors.As(err, &e) && e.Status < http.StatusInternalServerError && e.Code != "" {
		switch e.Status {
		case http.StatusNotFound, http.StatusBadRequest:
			return notFound()
		case http.StatusForbidden:
			return denied()
		}
		return httpError{Status: e.Status, Title: "Request rejected", Text: e.Message, Retry: e.Status == http.StatusTooManyRequests}
	}
	s.logAPIError(r.Context(), err)
	return httpError{
		Status: http.StatusBadGateway, Title: "Management API unavailable",
		Text: "Apps and their gates are not affected. Try again later.", Retry: true,
	}
}

func (s *Service) logAPIError(ctx context.Context, err error) {
	s.log.ErrorContext(ctx, "call management API failed", "error", err)
}

func (s *Service) refuse(w http.ResponseWriter, r *http.Request, e httpError) {
	s.writeError(w, r, layoutData{}, e)
}

func (s *Service) writeError(w http.ResponseWriter, r *http.Request, f layoutData, e httpError) {
	e.ID = reqctx.ID(r.Context())
	path := ""
	if r.Method == http.MethodGet {
		path = r.URL.RequestURI()
	}
	err := s.renderer.Write(w, r, e.Status, "error", "layout", pageData{layoutData: f, page: page{Title: e.Title}, Path: path, Body: e})
	if err != nil {
		s.log.ErrorContext(r.Context(), "write page failed", "error", err)
	}
}
