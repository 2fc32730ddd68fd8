package architecture

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
)

// TestNoSecrets checks that no file outside of tests contains a valid key or service token, or a
// private key.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	key := regexp.MustCompile(`sluice_[0-9a-z]{8}_[0-9A-Za-z]{38}`)
	token := regexp.MustCompile(`sluice_st_[0-9a-z]{12}_[0-9A-Za-z]{38}`)
	private := regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/=]{20}`)
	seen := 0
	for name, text := range trackedFiles(t) {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
			continue
		}
		seen++
		for _, found := range key.FindAllString(text, -1) {
			if _, ok := apikey.Parse([]byte(found)); ok {
				t.Errorf("%s contains an API key", name)
			}
		}
		for _, found := range token.FindAllString(text, -1) {
			if _, ok := servicetoken.Full(found).ID(); ok {
				t.Errorf("%s contains a service token", name)
			}
		}
		if private.MatchString(text) {
			t.Errorf("%s contains a private key", name)
		}
	}
	if seen < 100 {
		t.Errorf("files checked: got %d, want at least 100", seen)
	}
}
