package console

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/client"
)

func TestServiceTokens(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		members := "/console/projects/" + s.Project + "/members"
		v.opens(members).sees("No service tokens.")
		v.clicks("Create service token")
		v.types("Name", "Not a name")
		v.chooses("Role", "developer: can also deploy, and manage apps, keys and plans")
		v.clicks("Create service token").sees("The token's name must have 1 to 40 characters")
		v.submits("Create service token", "Name", "nightly").sees("Copy the token now")
		full := regexp.MustCompile(`sluice_st_[0-9a-z]{12}_[0-9A-Za-z]{38}`).FindString(v.text())
		v.shot("token-issued")
		v.reloads().sees("A service token with this name already exists.")

		c := client.New(world.Info().BaseURL).WithToken(client.Token(full))
		if p, err := c.Project(v.t.Context(), s.Project); err != nil || p.Role != "developer" {
			v.t.Errorf("token of %d characters: got %+v, %v", len(full), p, err)
		}
		v.opens(members).sees("just now")
		if strings.Contains(v.source(), full) {
			v.t.Error("the list contains the token")
		}
		v.shot("members-tokens")

		other := browseAs(v.t, desk, s.member("viewer"))
		other.opens(members).sees("nightly")
		other.offersNone("Create service token", "Revoke nightly")

		v.clicks("Revoke nightly").sees("Calls with this token get 401 immediately.")
		v.clicks("Revoke nightly").sees("Service token revoked.")
		if _, err := c.Project(v.t.Context(), s.Project); !client.HasCode(err, "unauthenticated") {
			v.t.Errorf("revoked token: got %v, want %d", err, http.StatusUnauthorized)
		}
	})
}
