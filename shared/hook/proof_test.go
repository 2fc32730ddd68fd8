package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The example of GitHub's documentation on validating webhook deliveries.
const (
	publishedSecret = "It's a Secret to Everybody"
	publishedBody   = "Hello, World!"
	publishedDigest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

const ours Token = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

const body = `{"image":"registry.example.com/hello:2","commit":"9fceb02"}`

func TestPublishedVector(t *testing.T) {
	t.Parallel()
	if !signed(publishedSecret, "sha256="+publishedDigest, []byte(publishedBody)) {
		t.Error("the published signature is rejected")
	}
	tests := []struct{ name, given, body string }{
		{"an empty digest", "sha256=", publishedBody},
		{"nothing", "", publishedBody},
		{"upper case", "sha256=" + strings.ToUpper(publishedDigest), publishedBody},
		{"one upper-case digit", "sha256=" + strings.Replace(publishedDigest, "e", "E", 1), publishedBody},
		{"an upper-case algorithm", "SHA256=" + publishedDigest, publishedBody},
		{"another algorithm", "sha1=" + publishedDigest, publishedBody},
		{"no algorithm", publishedDigest, publishedBody},
		{"the algorithm twice", "sha256=sha256=" + publishedDigest, publishedBody},
		{"a blank before", " sha256=" + publishedDigest, publishedBody},
		{"a blank after", "sha256=" + publishedDigest + " ", publishedBody},
		{"a digit less", "sha256=" + publishedDigest[:63], publishedBody},
		{"a digit more", "sha256=" + publishedDigest + "0", publishedBody},
		{"another last digit", "sha256=" + publishedDigest[:63] + "8", publishedBody},
		{"one byte of the body changed", "sha256=" + publishedDigest, "Hello, World?"},
		{"a newline more", "sha256=" + publishedDigest, publishedBody + "\n"},
		{"no body", "sha256=" + publishedDigest, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if signed(publishedSecret, tt.given, []byte(tt.body)) {
				t.Errorf("signature %q is accepted for body %q", tt.given, tt.body)
			}
		})
	}
}

func sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestWebhookAuthentication(t *testing.T) {
	t.Parallel()
	other := Token(strings.Repeat("B", 42) + "A")
	good := sign(string(ours), body)
	tests := []struct {
		name       string
		token      Token
		tokens     []string
		signatures []string
		body       string
		want       bool
	}{
		{"the token", ours, []string{string(ours)}, nil, body, true},
		{"the signature", ours, nil, []string{good}, body, true},
		{"both", ours, []string{string(ours)}, []string{good}, body, true},
		{"neither", ours, nil, nil, body, false},
		{"another token", ours, []string{string(other)}, nil, body, false},
		{"an empty token", ours, []string{""}, nil, body, false},
		{"the token's beginning", ours, []string{string(ours[:42])}, nil, body, false},
		{"the token and more", ours, []string{string(ours) + "A"}, nil, body, false},
		{"another token's signature", ours, nil, []string{sign(string(other), body)}, body, false},
		{"the right token, a wrong signature", ours, []string{string(ours)}, []string{sign(string(other), body)}, body, false},
		{"the right token, an empty signature", ours, []string{string(ours)}, []string{""}, body, false},
		{"the right signature, a wrong token", ours, []string{string(other)}, []string{good}, body, false},
		{"the right signature, an empty token", ours, []string{""}, []string{good}, body, false},
		{"the token twice", ours, []string{string(ours), string(ours)}, nil, body, false},
		{"the signature twice", ours, nil, []string{good, good}, body, false},
		{"the same JSON written otherwise", ours, nil, []string{good}, `{"commit":"9fceb02","image":"registry.example.com/hello:2"}`, false},
		{"the same JSON with a blank", ours, nil, []string{good}, strings.Replace(body, ":", ": ", 1), false},
		{"no token is set, none is sent", "", []string{""}, nil, body, false},
		{"no token is set, signed with nothing", "", nil, []string{sign("", body)}, body, false},
		{"a damaged token", "short", []string{"short"}, nil, body, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{TokenHeader: tt.tokens, SignatureHeader: tt.signatures}
			if got := proven(tt.token, header, []byte(tt.body)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestGitLabToken(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		tokens, gitLab []string
		want           bool
	}{
		{name: "the token", gitLab: []string{string(ours)}, want: true},
		{name: "in both headers", tokens: []string{string(ours)}, gitLab: []string{string(ours)}, want: true},
		{name: "another token", gitLab: []string{"wrong"}},
		{name: "the token and a wrong one", tokens: []string{string(ours)}, gitLab: []string{"wrong"}},
		{name: "a wrong one and the token", tokens: []string{"wrong"}, gitLab: []string{string(ours)}},
		{name: "the token twice", gitLab: []string{string(ours), string(ours)}},
		{name: "empty", gitLab: []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{TokenHeader: tt.tokens, GitLabTokenHeader: tt.gitLab, "Authorization": {"Bearer x"}}
			if got := proven(ours, header, []byte(body)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if _, ok := BearerOf(header); ok {
				t.Error("the bearer token is used in addition to the app's token")
			}
		})
	}
}

func TestNewToken(t *testing.T) {
	t.Parallel()
	random := strings.NewReader("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f")
	token, err := NewToken(random)
	if err != nil || token != ours || !token.Valid() {
		t.Errorf("got %q, %v; want %q", string(token), err, string(ours))
	}
	if token, err := NewToken(random); err == nil {
		t.Errorf("without randomness: got the token %q, want an error", string(token))
	}
}

func TestTokenIsNeverPrinted(t *testing.T) {
	t.Parallel()
	for _, printed := range []string{
		fmt.Sprint(ours), fmt.Sprintf("%v %+v %#v %s %q", ours, ours, ours, ours, ours),
		fmt.Sprintf("%v %+v", struct{ T Token }{ours}, []Token{ours}), ours.LogValue().String(),
	} {
		if strings.Contains(printed, string(ours)) {
			t.Errorf("the token is printed: %s", printed)
		}
	}
}

func proven(token Token, header http.Header, body []byte) bool {
	c, ok := ClaimOf(header)
	return ok && (!c.CarriesToken() || c.Knows(token)) && c.Proves(token, body)
}

// FuzzProven compares the code with a reference that decodes the signature.
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
			t.Error("an empty token or an empty claim is accepted")
		}
	})
}
