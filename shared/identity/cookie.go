package identity

import (
	"net/http"
	"time"
)

const (
	// CookieName is that of the session's cookie.
	CookieName = "sluice_session"

	// CSRFHeader repeats a session's CSRF value.
	CSRFHeader = "X-CSRF-Token"
)

// SetCookie hands a session to a browser: for no script to read, for no plain
// connection to carry (browsers make an exception for localhost), and for no
// other site's forms to use.
func SetCookie(w http.ResponseWriter, t Token, expires time.Time) {
	c := cookie(string(t))
	c.Expires = expires
	http.SetCookie(w, c)
}

// ClearCookie takes the session away from a browser.
func ClearCookie(w http.ResponseWriter) {
	c := cookie("")
	c.MaxAge = -1
	http.SetCookie(w, c)
}

func cookie(value string) *http.Cookie {
	return &http.Cookie{Name: CookieName, Value: value, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
}
