package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicegate/sluice/shared/trace"
)

// maxAnswer bounds an answer's body, in bytes: a page of 500 has far less.
const maxAnswer = 16 << 20

// request is one call, before it is sent.
type request struct {
	method string
	path   []string // segments after /api/v1, not escaped yet
	query  url.Values
	body   any // nil sends none
}

// call sends a request and reads its answer into a T.
func call[T any](ctx context.Context, c *Client, q request) (T, error) {
	var v T
	body, err := c.send(ctx, q)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("%s %s: read the answer: %w", q.method, q.name(), err)
	}
	return v, nil
}

// send sends a request, again where that is harmless, and gives the body of a
// successful answer.
func (c *Client) send(ctx context.Context, q request) ([]byte, error) {
	address, err := c.address(q)
	if err != nil {
		return nil, err
	}
	var body []byte
	if q.body != nil {
		if body, err = json.Marshal(q.body); err != nil {
			return nil, fmt.Errorf("%s %s: write the body: %w", q.method, q.name(), err)
		}
	}
	for try := 1; ; try++ {
		answer, err := c.once(ctx, q.method, address, body)
		if err == nil {
			return answer, nil
		}
		if q.method != http.MethodGet || try >= c.tries || !c.pause(ctx, try, err) {
			return nil, fmt.Errorf("%s %s: %w", q.method, q.name(), err)
		}
	}
}

// once sends one request.
func (c *Client) once(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.request != "" && method == http.MethodPost {
		req.Header.Set("Idempotency-Key", c.request)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+string(c.token))
	}
	if r, ok := trace.Of(ctx); ok { // a call on behalf of a request goes on under its id
		req.Header.Set(trace.Header, r.ID)
		if r.Address != "" {
			req.Header.Set("X-Forwarded-For", r.Address)
			req.Header.Set(trace.RealIP, r.Address)
		}
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer func() { _ = res.Body.Close() }() // the body is read already
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, readError(res, answer)
	}
	return answer, nil
}

// withoutURL takes net/http's method and address off an error; send says them.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// address is where a request goes. A segment that would change the path's shape
// is refused here, before a proxy can make another path of it.
func (c *Client) address(q request) (string, error) {
	var b strings.Builder
	b.WriteString(c.base)
	for _, s := range q.path {
		if s == "" || s == "." || s == ".." {
			return "", fmt.Errorf("%s %s: %q is no name", q.method, q.name(), s)
		}
		b.WriteString("/" + url.PathEscape(s))
	}
	if len(q.query) > 0 {
		b.WriteString("?" + q.query.Encode())
	}
	return b.String(), nil
}

func (q request) name() string { return "/" + strings.Join(q.path, "/") }
