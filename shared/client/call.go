package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/wire"
)

const maxResponse = 16 << 20

// call calls a route. path contains the values of its path parameters.
func call[Req, Res any](ctx context.Context, c *Client, route api.Route[Req, Res], in Req, path ...string) (Res, error) {
	out, _, err := tagged(ctx, c, route, in, path...)
	return out, err
}

// tagged is like call, and also returns the response's ETag.
func tagged[Req, Res any](ctx context.Context, c *Client, route api.Route[Req, Res], in Req, path ...string) (Res, string, error) {
	var out Res
	var body any
	query := ""
	switch {
	case route.Method == http.MethodGet:
		query = values(reflect.ValueOf(in), url.Values{}).Encode()
	case route.HasBody() && route.Request != reflect.TypeFor[api.Empty]():
		body = in
	}
	name := strings.TrimPrefix(route.URL(func(s string) string { return s }, path...), api.Base)
	answer, tag, err := c.send(ctx, route.Row, path, query, body)
	if err != nil {
		return out, "", fmt.Errorf("%s %s: %w", route.Method, name, err)
	}
	if route.Answer == reflect.TypeFor[api.None]() || route.Method == http.MethodDelete && len(answer) == 0 { // an older server sends no body
		return out, tag, nil
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, "", fmt.Errorf("%s %s: read response: %w", route.Method, name, err)
	}
	return out, tag, nil
}

func do[Req, Res any](ctx context.Context, c *Client, route api.Route[Req, Res], in Req, path ...string) error {
	_, err := call(ctx, c, route, in, path...)
	return err
}

func values(from reflect.Value, to url.Values) url.Values {
	for i := range from.NumField() {
		field := from.Field(i)
		name := from.Type().Field(i).Tag.Get("query")
		if name == "" {
			values(field, to)
		} else if text := fmt.Sprint(reflect.Indirect(field)); !field.IsZero() {
			to.Set(name, text)
		}
	}
	return to
}

// paged is a page of a list, such as [wire.List].
type paged[T any] interface {
	Page() (items []T, next string)
}

func all[Req, T any, L paged[T]](ctx context.Context, c *Client, route api.Route[Req, L], part func(Page) Req, path ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var p Page
		for {
			list, err := call(ctx, c, route, part(p), path...)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			items, next := list.Page()
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			p.Token = next
		}
	}
}

func whole(p Page) Page { return p }

// Collect returns the items of a list. After an error, it returns the items so far and the error.
func Collect[T any](list iter.Seq2[T, error]) ([]T, error) {
	var items []T
	for item, err := range list {
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
	return items, nil
}

// address returns the URL of a call. It returns an error if a value in path is empty, or if the URL
// contains a secret.
func (c *Client) address(row *api.Row, path []string, query string) (string, error) {
	for _, s := range path {
		if s == "" || s == "." || s == ".." { // proxies can normalize the path
			return "", fmt.Errorf("%q is not a valid name", s)
		}
	}
	address := c.base + row.URL(url.PathEscape, path...)
	if query != "" {
		address += "?" + query
	}
	if apikey.HoldsSecret(address) {
		return "", &Error{
			Status: http.StatusBadRequest, Code: string(problem.SecretInURL),
			Message: "A URL must not contain a full API key or a service token. Nothing was sent.",
		}
	}
	return address, nil
}

// send sends a request, with retries if that is safe. It returns the response's body and ETag.
func (c *Client) send(ctx context.Context, row *api.Row, path []string, query string, in any) (body []byte, tag string, err error) {
	address, err := c.address(row, path, query)
	if err != nil {
		return nil, "", err
	}
	var sent []byte
	if in != nil {
		if sent, err = json.Marshal(in); err != nil {
			return nil, "", fmt.Errorf("write request body: %w", err)
		}
	}
	for try := 1; ; try++ {
		body, tag, err = c.once(ctx, row, address, sent)
		repeats := row.Method == http.MethodGet || row.Repeats && c.request != ""
		if err == nil || !repeats || try >= c.tries || !c.pause(ctx, try, err) {
			return body, tag, err
		}
	}
}

func (c *Client) once(ctx context.Context, row *api.Row, address string, body []byte) (answer []byte, tag string, err error) {
	timeout := c.timeout
	if c.waits(row) {
		timeout += c.wait
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := c.open(ctx, row, address, body)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err = readBody(res)
	if err != nil {
		return nil, "", err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, "", readError(res, answer)
	}
	return answer, res.Header.Get(api.ETag), nil
}

func (c *Client) waits(row *api.Row) bool {
	return c.wait >= time.Second && slices.Contains(row.Headers, api.Prefer)
}

// open sends a request. The caller must close the response's body.
func (c *Client) open(ctx context.Context, row *api.Row, address string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, row.Method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", cmp.Or(row.Media, "application/json"))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.waits(row) {
		req.Header.Set(api.Prefer, fmt.Sprintf("wait=%d", c.wait/time.Second))
	}
	if c.request != "" && row.Method == http.MethodPost {
		req.Header.Set(api.IdempotencyKey, c.request)
	}
	if c.match != "" && slices.Contains(row.Headers, api.IfMatch) {
		req.Header.Set(api.IfMatch, c.match)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+string(c.token))
	}
	if r, ok := reqctx.FromContext(ctx); ok {
		c.onBehalf(req.Header, r)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	return res, nil
}

func readBody(res *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	if len(body) > maxResponse {
		return nil, fmt.Errorf("the response is larger than %d bytes", maxResponse)
	}
	return body, nil
}

// onBehalf adds the headers of a call on behalf of another request: its ID, trace and signed client
// address.
func (c *Client) onBehalf(h http.Header, of reqctx.Request) {
	h.Set(reqctx.Header, of.ID)
	if of.Parent != "" {
		h.Set(reqctx.ParentHeader, of.Parent)
	}
	if signed := reqctx.Vouch(c.vouching, of.Address, h.Get("Authorization"), c.now()); signed != "" {
		h.Set(reqctx.ClientHeader, signed)
	}
}

// withoutURL removes the method and URL from an error of net/http, because call adds them.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Error is the error for a response that is not a success.
type Error struct {
	Status     int
	Code       string // stable, e.g. "not_found"; "" if the response is not from Sluice
	Message    string
	RetryAfter time.Duration // zero if the response has none
	RequestID  string        // in the server's log; can be ""

	Fields []wire.FieldError // invalid fields of the request; Code and Message are those of the first
}

// Error returns the message with the code.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// HasCode reports whether err is an [*Error] with the code, e.g. "not_found".
func HasCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

func readError(res *http.Response, body []byte) *Error {
	e := &Error{
		Status: res.StatusCode, Message: http.StatusText(res.StatusCode),
		RequestID: res.Header.Get("X-Request-Id"),
	}
	if s, err := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	var sent wire.Error
	if err := json.Unmarshal(body, &sent); err == nil && sent.Code != "" {
		e.Code, e.Message, e.Fields = sent.Code, sent.Message, sent.Errors
	}
	return e
}

const (
	firstPause = 100 * time.Millisecond // doubles with every try
	maxPause   = 10 * time.Second       // a longer Retry-After ends the retries
)

func (c *Client) pause(ctx context.Context, try int, err error) bool {
	wait, ok := backoff(try, err)
	if !ok || ctx.Err() != nil {
		return false
	}
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) < wait {
		return false // err is more useful to the caller than a timeout
	}
	return reqctx.Sleep(ctx, wait)
}

// backoff returns the pause after an error and reports whether to retry. Half of the pause is
// random, so that clients do not retry at the same time.
func backoff(try int, err error) (time.Duration, bool) {
	wait := min(firstPause<<min(try-1, 10), maxPause)
	wait = wait/2 + rand.N(wait/2+1) //nolint:gosec // a pause needs no secrecy
	var e *Error
	if !errors.As(err, &e) {
		return wait, true
	}
	if e.Status != http.StatusTooManyRequests && e.Status < http.StatusInternalServerError {
		return 0, false
	}
	wait = max(wait, e.RetryAfter)
	return wait, wait <= maxPause
}
