package identity

import (
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/identity/servicetoken"
)

const (
	// CookieName has the prefix __Host-, so browsers accept the cookie only from the console's host.
	CookieName = "__Host-sluice_session"

	// CSRFHeader contains the session's CSRF value.
	CSRFHeader = "X-CSRF-Token"

	maxCookies = 4 // session cookies read from one request
)

// Cookies returns the distinct tokens in the session cookies, without service tokens. If there are
// several, an attacker may have set one; see [Guard.Session].
func Cookies(r *http.Request) []Token {
	var tokens []Token
	for _, c := range r.CookiesNamed(CookieName) {
		if t := Token(c.Value); t != "" && !servicetoken.Claims(string(t)) && !slices.Contains(tokens, t) && len(tokens) < maxCookies {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

// SetCookie stores a session in a browser. The cookie is hidden from scripts and other sites.
// Browsers send it only over HTTPS and to localhost.
func SetCookie(w http.ResponseWriter, t Token, expires time.Time) {
	c := cookie(string(t))
	c.Expires = expires
	http.SetCookie(w, c)
}

// ClearCookie deletes the session cookie.
func ClearCookie(w http.ResponseWriter) {
	c := cookie("")
	c.MaxAge = -1
	http.SetCookie(w, c)
}

func cookie(value string) *http.Cookie {
	return &http.Cookie{Name: CookieName, Value: value, Path: "/", HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
}
