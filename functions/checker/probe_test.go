package checker

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/checkers"
	"github.com/sluicegate/sluice/tests/check"
)

func TestProof(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, full := serving(t, nil)
		key, err := checkers.DeriveProofKey([]byte("private"))
		check.OK(t, err)
		r.proofKey = func() (checkers.ProofKey, error) { return key, nil }
		plain := r.sendCheck("shop-prod/hello")
		takeID(t, plain)
		body, nonce := readAll(t, plain), checkers.NewNonce()
		for _, given := range []string{"", full + "x"} {
			res := r.sendCheck("shop-prod/hello", checkers.NonceHeader, nonce, "X-Api-Key", given)
			proof := res.Header.Get(checkers.ProofHeader)
			if !key.VerifyProof(proof, nonce, "shop-prod/hello") || key.VerifyProof(proof, nonce, "shop-prod/other") {
				t.Errorf("key %q: got proof %q, want one for shop-prod/hello", given, proof)
			}
			takeID(t, res)
			res.Header.Del(checkers.ProofHeader)
			if diff := cmp.Diff(plain.Header, res.Header); diff != "" || res.StatusCode != http.StatusUnauthorized || readAll(t, res) != body {
				t.Errorf("key %q: got %d, diff of headers (-want +got):\n%s", given, res.StatusCode, diff)
			}
		}
		for address, subject := range map[string]string{
			"shop-prod/hello/h5f0qk2m3ys":               "shop-prod/hello/h5f0qk2m3ys",
			"shop-prod/hello/h5f0qk2m3ys/a/b":           "shop-prod/hello/h5f0qk2m3ys",
			"shop-prod/hello/":                          "shop-prod/hello",
			"shop-prod/hello/.well-known/sluice-gate":   "shop-prod/hello",
			"shop-prod/hello/longerthananygeneration/a": "shop-prod/hello",
		} {
			if proof := r.sendCheck(address, checkers.NonceHeader, nonce).Header.Get(checkers.ProofHeader); !key.VerifyProof(proof, nonce, subject) {
				t.Errorf("%s: got a proof for another subject, want %s", address, subject)
			}
		}
		for name, headers := range map[string][]string{
			"allowed":       {checkers.NonceHeader, nonce, "X-Api-Key", full},
			"a preflight":   {checkers.NonceHeader, nonce, "X-Forwarded-Method", "", "X-Forwarded-Method", "OPTIONS", "Access-Control-Request-Method", "GET"},
			"two nonces":    {checkers.NonceHeader, nonce, checkers.NonceHeader, nonce},
			"a short nonce": {checkers.NonceHeader, nonce[1:]},
			"a long nonce":  {checkers.NonceHeader, strings.Repeat("A", 1<<16)},
			"no nonce":      {},
		} {
			if proof := r.sendCheck("shop-prod/hello", headers...).Header[checkers.ProofHeader]; proof != nil {
				t.Errorf("%s: got proof %q, want none", name, proof)
			}
		}
	})
}
