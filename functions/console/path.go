package console

import (
	"net/url"
	"strings"
)

// at is the path of a page, of unescaped segments: at("projects", "shop").
func at(segments ...string) string {
	var b strings.Builder
	b.WriteString(home)
	for _, s := range segments {
		b.WriteString("/" + url.PathEscape(s))
	}
	return b.String()
}

// own gives s if it is a page of the console, else "": nobody is sent elsewhere by a
// link that somebody else has made.
func own(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.ContainsAny(s, "\\\r\n\t") {
		return ""
	}
	if u.Path != home && !strings.HasPrefix(u.Path, home+"/") || strings.Contains(u.Path, "//") || strings.Contains(u.Path, "/../") {
		return ""
	}
	u.Fragment = ""
	return u.String()
}
