package console

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
)

// live is a part of a page that is on its way somewhere. With scripts it asks for
// itself anew every two seconds; without, the page offers a link to load it again.
type live struct {
	Moving bool   // it will change by itself
	URL    string // where to ask for it, with what is shown already
	seen   string
}

// following makes a part live. path is where it answers; shown is what decides how
// it looks.
func following(moving bool, path string, shown any) live {
	l := live{Moving: moving}
	if moving {
		l.seen = fingerprint(shown)
		l.URL = path + "?" + url.Values{"seen": {l.seen}}.Encode()
	}
	return l
}

// fingerprint tells whether what is shown has changed; it protects nothing.
func fingerprint(shown any) string {
	text, err := json.Marshal(shown)
	if err != nil { // only what has come as JSON is shown
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	return fmt.Sprintf("%016x", h.Sum64())
}

// follow answers a part that asks for itself: nothing new if it looks as it did, so
// that what somebody reads or has focused stays and a screen reader is silent.
func (v *visit) follow(l live, page, part string, body any) error {
	if l.Moving && v.r.URL.Query().Get("seen") == l.seen {
		if _, err := v.frame(); err != nil {
			return err
		}
		v.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return v.part(page, part, body)
}
