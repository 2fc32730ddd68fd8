package identity

import (
	"net/http"
	"slices"
	"time"

	"github.com/sluicegate/sluice/shared/identity/servicetoken"
)

const (
	// CookieName is that of the session's cookie. A browser takes a cookie whose name
	// begins with __Host- from that host alone, so an app on a sibling host, or below
	// this one, cannot plant it.
	CookieName = "__Host-sluice_session"

	// CSRFHeader repeats a session's CSRF value.
	CSRFHeader = "X-CSRF-Token"

	maxCookies = 4 // session cookies that are looked at, of one request
)

// Cookies are the tokens of a request's session cookies, each once. A browser sends
// one at most, or none; where there are several, somebody else has planted the others,
// and whose they are decides, see [Guard.Session]. A service token is none: it has no CSRF
// value that would go with changes, and programs have no cookies.
func Cookies(r *http.Request) []Token {
	var tokens []Token
	for _, c := range r.CookiesNamed(CookieName) {
		if t := Token(c.Value); t != "" && !servicetoken.Claims(string(t)) && !slices.Contains(tokens, t) && len(tokens) < maxCookies {
			tokens = append(tokens, t)
		}
	}
	return tokens
}

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
