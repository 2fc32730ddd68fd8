package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
)

// FuzzProven: a call is proven by the token or by the body's own signature under it,
// and by nothing else; the reference decodes where the code compares texts.
func FuzzProven(f *testing.F) {
	const token = Token("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
	good := func(body []byte) []byte {
		m := hmac.New(sha256.New, []byte(token))
		m.Write(body)
		return m.Sum(nil)
	}
	body := []byte(`{"image":"a:1"}`)
	digest := hex.EncodeToString(good(body))
	for _, seed := range [][2]string{
		{"", ""},
		{string(token), ""},
		{"", "sha256=" + digest},
		{string(token), "sha256=" + digest},
		{"x", "sha256=" + digest},
		{string(token), "sha256="},
		{"", "sha256=" + strings.ToUpper(digest)},
		{"", "sha1=" + digest},
		{"", digest},
		{"", "sha256= " + digest},
		{"", "sha256=" + digest + "00"},
		{string(token[:42]), ""},
	} {
		f.Add(seed[0], seed[1], body)
	}
	f.Fuzz(func(t *testing.T, given, signature string, body []byte) {
		h := http.Header{}
		want := given != "" || signature != ""
		if given != "" {
			h[TokenHeader] = []string{given}
			want = want && given == string(token)
		}
		if signature != "" {
			h[SignatureHeader] = []string{signature}
			sum, err := hex.DecodeString(strings.TrimPrefix(signature, "sha256="))
			want = want && err == nil && strings.HasPrefix(signature, "sha256=") && hmac.Equal(sum, good(body)) && strings.ToLower(signature) == signature
		}
		if got := proven(token, h, body); got != want {
			t.Errorf("token %q, signature %q: %t, want %t", given, signature, got, want)
		}
		if proven("", h, body) || proven(Token(given), http.Header{}, body) {
			t.Error("an empty token, or no proof, opens")
		}
	})
}
