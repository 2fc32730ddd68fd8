package identity

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/problem"
)

func FuzzCredentials(f *testing.F) {
	f.Add("Bearer abc", "")
	f.Add("", CookieName+"=abc")
	f.Add("bearer abc", CookieName+"=other")
	f.Add("Basic abc", CookieName+"=a; "+CookieName+"=b")
	f.Add("Bearer", CookieName+`="abc"`)
	f.Add("Bearer \x00", "=;=;;,"+CookieName)
	f.Fuzz(func(t *testing.T, authorization, cookie string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if authorization != "" {
			r.Header["Authorization"] = []string{authorization}
		}
		if cookie != "" {
			r.Header["Cookie"] = []string{cookie}
		}
		tokens, byCookie, err := credentials(r)
		if err != nil {
			if !problem.Is(err, problem.Unauthenticated) || tokens != nil {
				t.Fatalf("tokens %q, %v", tokens, err)
			}
			return
		}
		from := authorization
		if byCookie {
			from = cookie
			if scheme, _, _ := strings.Cut(authorization, " "); strings.EqualFold(scheme, "Bearer") {
				t.Errorf("%q with %q counts as cookie", cookie, authorization)
			}
		}
		for _, token := range tokens {
			if !strings.Contains(from, string(token)) {
				t.Errorf("token: got %q, not in %q", string(token), from)
			}
		}
		if most := map[bool]int{true: maxCookies, false: 1}[byCookie]; len(tokens) > most {
			t.Errorf("got %d tokens", len(tokens))
		}
		twice := r.Clone(t.Context())
		twice.Header["Authorization"] = []string{"Bearer a", "Bearer b"}
		if _, _, err := credentials(twice); err == nil {
			t.Error("two bearer tokens are accepted")
		}
	})
}
