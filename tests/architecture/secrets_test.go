package architecture

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/identity/servicetoken"
)

// TestNoSecrets: no file that is kept, tests and their data apart, holds a key or a
// service token that could be real, or a private key.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	key := regexp.MustCompile(`sluice_[0-9a-z]{8}_[0-9A-Za-z]{38}`)
	token := regexp.MustCompile(`sluice_st_[0-9a-z]{12}_[0-9A-Za-z]{38}`)
	private := regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\n[A-Za-z0-9+/=]{20}`)
	seen := 0
	for name, text := range kept(t) {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
			continue
		}
		seen++
		for _, found := range key.FindAllString(text, -1) {
			if _, ok := apikey.Parse([]byte(found)); ok {
				t.Errorf("%s holds an API key", name)
			}
		}
		for _, found := range token.FindAllString(text, -1) {
			if _, ok := servicetoken.Full(found).ID(); ok {
				t.Errorf("%s holds a service token", name)
			}
		}
		if private.MatchString(text) {
			t.Errorf("%s holds a private key", name)
		}
	}
	if seen < 100 {
		t.Errorf("only %d files were looked at", seen)
	}
}
