package console

import (
	"context"
	"errors"
	"net/http"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/trace"
)

// httpError is a page that says what went wrong and what to do next.
type httpError struct {
	Status int
	Title  string
	Text   string
	Retry  bool   // the same again may work
	ID     string // of the request, for who looks into the logs
}

// Error makes it an error that a page can end with.
func (e httpError) Error() string { return e.Title }

func notFound() httpError {
	return httpError{
		Status: http.StatusNotFound, Title: "Page not found",
		Text: "The page does not exist, or its content was deleted.",
	}
}

func unreadable() httpError {
	return httpError{
		Status: http.StatusBadRequest, Title: "Invalid form",
		Text: "The form is too large or damaged. No changes were made.",
	}
}

// fail answers a request that ended with an error.
func (s *Service) fail(r *request, err error) {
	f, ferr := r.frame()
	if client.HasCode(err, "unauthenticated") || client.HasCode(ferr, "unauthenticated") {
		s.toSignIn(r.w, r.Request)
		return
	}
	if ferr != nil { // whose project it is cannot be told; who is signed in may be known
		f = frame{User: f.User, CSRF: f.CSRF}
	}
	s.writeError(r.w, r.Request, f, s.explain(r.Request, err))
}

// explain is what to tell about an error. What is not the user's to mend is logged.
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
			return httpError{
				Status: http.StatusForbidden, Title: "Access denied",
				Text: "Your role does not allow this, or the project does not exist. Ask an owner of the project for a role.",
			}
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

// refuse answers with an error's page for nobody in particular.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, e httpError) {
	s.writeError(w, r, frame{}, e)
}

func (s *Service) writeError(w http.ResponseWriter, r *http.Request, f frame, e httpError) {
	e.ID = trace.ID(r.Context())
	path := ""
	if r.Method == http.MethodGet {
		path = r.URL.RequestURI()
	}
	err := s.renderer.Write(w, r, e.Status, "error", "layout", pageData{frame: f, page: page{Title: e.Title}, Path: path, Body: e})
	if err != nil {
		s.log.ErrorContext(r.Context(), "write page failed", "error", err)
	}
}
