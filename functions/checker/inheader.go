package checker

import "net/http"

const (
	// inHeader is the query of a check whose proxy can pass on a denial's headers but
	// not its body, such as nginx by auth_request.
	inHeader = "denial=header"

	// bodyHeader holds the denial's body, which is JSON in one line of visible ASCII.
	bodyHeader = "X-Sluice-Denial"
)

// answerIn gives what a check is answered to: with inHeader, a denial's body comes in
// a header too. The query is the proxy's own, a part of the address in its
// configuration.
func answerIn(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if r.URL.RawQuery != inHeader {
		return w
	}
	return &headed{ResponseWriter: w}
}

// headed holds a denial's status back until its body comes.
type headed struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements [http.ResponseWriter].
func (h *headed) WriteHeader(status int) {
	if status == http.StatusOK {
		h.ResponseWriter.WriteHeader(status)
		return
	}
	h.status = status
}

// Write implements [http.ResponseWriter]. A denial's body comes in one piece.
func (h *headed) Write(body []byte) (int, error) {
	if h.status != 0 {
		h.Header()[bodyHeader] = []string{string(body)}
		h.ResponseWriter.WriteHeader(h.status)
		h.status = 0
	}
	return h.ResponseWriter.Write(body)
}
