package console

import (
	"errors"
	"net/http"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/trace"
)

// troubled is a page that says what went wrong and what to do next.
type troubled struct {
	Status int
	Title  string
	Text   string
	Retry  bool   // the same again may work
	ID     string // of the request, for who looks into the logs
}

// Error makes it an error that a page can end with.
func (t troubled) Error() string { return t.Title }

func noPage() troubled {
	return troubled{
		Status: http.StatusNotFound, Title: "There is nothing here",
		Text: "The page does not exist, or what it showed has been deleted meanwhile.",
	}
}

func unreadable() troubled {
	return troubled{
		Status: http.StatusBadRequest, Title: "That form could not be read",
		Text: "It is too large or damaged. Nothing was done.",
	}
}

// fail answers a visit that ended with an error.
func (s *Service) fail(v *visit, err error) {
	if client.HasCode(err, "unauthenticated") {
		s.toSignIn(v.w, v.r)
		return
	}
	t := s.trouble(v.r, err)
	f, ferr := v.frame()
	if ferr != nil {
		if client.HasCode(ferr, "unauthenticated") {
			s.toSignIn(v.w, v.r)
			return
		}
		// Whose project it is cannot be told; who is signed in may be known.
		f = frame{User: f.User, CSRF: f.CSRF}
	}
	s.refuseIn(v.w, v.r, f, t)
}

// trouble is what to tell about an error. What is not the visitor's to mend is
// logged.
func (s *Service) trouble(r *http.Request, err error) troubled {
	var t troubled
	if errors.As(err, &t) {
		return t
	}
	var e *client.Error
	if errors.As(err, &e) && e.Status < http.StatusInternalServerError && e.Code != "" {
		switch e.Status {
		case http.StatusNotFound, http.StatusBadRequest:
			return noPage()
		case http.StatusForbidden:
			return troubled{
				Status: http.StatusForbidden, Title: "You may not see this",
				Text: "Your role in this project does not allow it, or there is no such project. An owner of the project can give you a role.",
			}
		}
		return troubled{Status: e.Status, Title: "That was refused", Text: e.Message, Retry: e.Status == http.StatusTooManyRequests}
	}
	s.log.ErrorContext(r.Context(), "the management API failed", "error", err)
	return troubled{
		Status: http.StatusBadGateway, Title: "The management API does not answer",
		Text: "Apps and their gates are not affected by this. Try again in a moment.", Retry: true,
	}
}

// refuse answers with an error's page for nobody in particular.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, t troubled) {
	s.refuseIn(w, r, frame{}, t)
}

func (s *Service) refuseIn(w http.ResponseWriter, r *http.Request, f frame, t troubled) {
	t.ID = trace.ID(r.Context())
	path := ""
	if r.Method == http.MethodGet {
		path = r.URL.RequestURI()
	}
	err := s.pages.write(w, t.Status, "trouble", "layout", view{frame: f, sheet: sheet{Title: t.Title}, Path: path, Body: t})
	if err != nil {
		s.log.ErrorContext(r.Context(), "page not written", "error", err)
	}
}
