package client

import (
	"net/http"
	"slices"
	"testing"

	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// Only POST requests of the copy contain an Idempotency-Key.
func TestOnlyPostSendsIdempotencyKey(t *testing.T) {
	t.Parallel()
	var got [][]string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, slices.Concat([]string{r.Method}, r.Header["Idempotency-Key"]))
		_, _ = w.Write([]byte(`{}`))
	}))
	named := c.WithIdempotencyKey("form-1")
	_, _, err := named.CreateKey(t.Context(), "shop", "prod", wire.CreateKey{})
	if err == nil {
		_, _, err = named.RotateKey(t.Context(), "shop", "key-ab12cd34", 0)
	}
	if err == nil {
		_, err = named.Key(t.Context(), "shop", "key-ab12cd34")
	}
	if err == nil {
		_, _, err = c.CreateKey(t.Context(), "shop", "prod", wire.CreateKey{})
	}
	check.OK(t, err)
	check.Equal(t, "calls", [][]string{{"POST", "form-1"}, {"POST", "form-1"}, {"GET"}, {"POST"}}, got)
}
