package console

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/identity"
)

const (
	signInPath = home + "/sign-in"

	// This cookie ties the sign-in form to the browser, so that another site cannot sign the user
	// in as a different user.
	signInCookie  = "__Host-sluice_sign_in" // see identity.CookieName
	signInSeconds = 3600

	// This cookie identifies the browser since the last sign-in of any user.
	deviceCookie = "__Host-sluice_device"
)

type signInPage struct {
	Form  view.Form
	Next  string // page after the sign-in; "" means the list of projects
	Proof string
}

func (s *Service) signInForm(w http.ResponseWriter, r *http.Request) error {
	proof := rand.Text()
	http.SetCookie(w, signInProof(proof, signInSeconds))
	return s.showSignIn(w, r, http.StatusOK, signInPage{Next: localPath(r.URL.Query().Get("next")), Proof: proof})
}

func (s *Service) showSignIn(w http.ResponseWriter, r *http.Request, status int, p signInPage) error {
	return s.renderer.Write(w, r, status, "session", "layout", pageData{
		page: page{Title: "Sign in"}, Notice: takeNotice(w, r), Body: p,
	})
}

func (s *Service) signIn(w http.ResponseWriter, r *http.Request) error {
	if r.ParseForm() != nil {
		s.refuse(w, r, unreadable())
		return nil //nolint:nilerr // the response is written
	}
	if !hasSignInProof(r) {
		return s.signInAgain(w, r, view.FormError{Status: http.StatusForbidden, Message: "The form was out of date. Sign in again."})
	}
	username := r.PostForm.Get("username")
	session, err := s.api.WithDevice(device(r)).SignIn(r.Context(), username, r.PostForm.Get("password"))
	if err != nil {
		return s.signInAgain(w, r, s.signInRefusal(r, err))
	}
	http.SetCookie(w, signInProof("", -1))
	http.SetCookie(w, strictCookie(deviceCookie, string(session.Device), int(identity.DeviceTTL.Seconds())))
	identity.SetCookie(w, identity.Token(session.Token), session.ExpiresAt)
	next := localPath(r.PostForm.Get("next"))
	if next == "" {
		next = at("projects")
	}
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // localPath returns only paths of the console
	return nil
}

func hasSignInProof(r *http.Request) bool {
	typed := []byte(r.PostForm.Get("csrf"))
	return len(typed) > 0 && slices.ContainsFunc(r.CookiesNamed(signInCookie), func(c *http.Cookie) bool {
		return subtle.ConstantTimeCompare([]byte(c.Value), typed) == 1
	})
}

func (s *Service) signInAgain(w http.ResponseWriter, r *http.Request, why view.FormError) error {
	proof := rand.Text()
	http.SetCookie(w, signInProof(proof, signInSeconds))
	f := view.FilledForm("username", r.PostForm.Get("username"))
	f.Err = &why
	return s.showSignIn(w, r, why.Status, signInPage{Form: f, Next: localPath(r.PostForm.Get("next")), Proof: proof})
}

func (s *Service) signInRefusal(r *http.Request, err error) view.FormError {
	var e *client.Error
	if errors.As(err, &e) && e.Code != "" && e.Status < http.StatusInternalServerError {
		return view.FormError{Status: e.Status, Message: e.Message, Code: e.Code}
	}
	s.logAPIError(r.Context(), err)
	return view.FormError{Status: http.StatusBadGateway, Message: "The management API is unavailable. Try again later."}
}

func signOut(r *request) error {
	if err := r.api.SignOut(r.Context()); err != nil {
		return err
	}
	identity.ClearCookie(r.w)
	return r.done(signInPath, noticeSignedOut)
}

// toSignIn redirects to the sign-in page. After the sign-in, the user returns to the requested page
// or to the page of the submitted form.
func (s *Service) toSignIn(w http.ResponseWriter, r *http.Request) {
	back := r.URL.RequestURI()
	if r.Method != http.MethodGet {
		back = ""
		if u, err := url.Parse(r.Referer()); err == nil && u.Host == r.Host {
			back = u.RequestURI()
		}
	}
	if r.Header.Get("HX-Request") != "" { // a part of a page: reload the whole page
		w.Header().Set("HX-Refresh", "true")
		w.WriteHeader(http.StatusOK)
		return
	}
	if _, err := r.Cookie(identity.CookieName); err == nil {
		identity.ClearCookie(w)
		leaveNotice(w, noticeSessionEnded)
	}
	target := signInPath
	if back = localPath(back); back != "" && back != home && back != at("projects") {
		target += "?" + url.Values{"next": {back}}.Encode()
	}
	http.Redirect(w, r, target, http.StatusSeeOther)
}

func device(r *http.Request) client.Token {
	c, err := r.Cookie(deviceCookie)
	if err != nil {
		return ""
	}
	return client.Token(c.Value)
}

func signInProof(value string, seconds int) *http.Cookie {
	return strictCookie(signInCookie, value, seconds)
}

// strictCookie returns a cookie that browsers send only in requests from the console's pages.
func strictCookie(name, value string, seconds int) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	}
}
