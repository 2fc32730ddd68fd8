package console

import "testing"

func TestReferenceSearch(t *testing.T) {
	t.Parallel()
	inEach(t, usual, func(v *visitor) {
		v.opens("/api/v1/docs")
		v.types("Search the API", "rotate key")
		if !v.window.noScript {
			v.sees("calls and events", "Replace a key's secret")
		}
		v.clicks("Search").sees("for “rotate key”", "/rotate")
		v.opens("/api/v1/docs#rotateKey")
		if v.window.noScript {
			v.sees("/rotate")
			return
		}
		v.until("open the page of the call", func() bool { return v.path() == "/api/v1/docs/keys" })
	})
}
