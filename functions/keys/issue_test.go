package keys

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
)

func TestPrefixTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makePlan(prod)
	first := w.makeKey()
	w.service.random = &stutter{text: first.Prefix, times: 2, then: apikey.Random()}
	second := w.makeKey()
	if second.Prefix == first.Prefix || !w.stored(first.ID).Secret.Equal(apikey.HashOf([]byte(first.FullKey))) {
		t.Errorf("IDs: got %s and %s", first.ID, second.ID)
	}
	w.service.random = &stutter{text: first.Prefix, times: 1000, then: apikey.Random()}
	w.do(http.MethodPost, prod+"/api-keys", `{"plan":"plan-starter"}`).Refused(http.StatusInternalServerError, problem.Internal)
	if n := w.countKeys(); n != 2 {
		t.Errorf("stored keys: got %d", n)
	}
}

// stutter is a random source that returns the same prefix several times. An attempt reads 64 bytes;
// byte n results in the n-th character of the alphabet.
type stutter struct {
	text  string
	times int // remaining repetitions
	turn  int // reads so far: a prefix, a secret, a prefix, …
	then  io.Reader
}

func (s *stutter) Read(p []byte) (int, error) {
	s.turn++
	if s.turn%2 == 0 || s.times == 0 {
		return s.then.Read(p)
	}
	s.times--
	for i := range p {
		p[i] = byte(strings.IndexByte("0123456789abcdefghijklmnopqrstuvwxyz", s.text[i%len(s.text)]))
	}
	return len(p), nil
}
