package client

import (
	"bytes"
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
	"github.com/sluicegate/sluice/shared/trace"
	"github.com/sluicegate/sluice/shared/wire"
)

// maxAnswer bounds an answer's body, in bytes: a page of 500 has far less.
const maxAnswer = 16 << 20

// call makes a call of the table of routes; path are the values of its path, in order.
func call[Req, Res any](ctx context.Context, c *Client, route api.Route[Req, Res], in Req, path ...string) (Res, error) {
	out, _, err := tagged(ctx, c, route, in, path...)
	return out, err
}

// tagged makes a call as call does, and returns the response's entity tag with its value.
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
	if route.Answer == reflect.TypeFor[api.None]() || route.Method == http.MethodDelete && len(answer) == 0 { // of an older server
		return out, tag, nil
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, "", fmt.Errorf("%s %s: read response: %w", route.Method, name, err)
	}
	return out, tag, nil
}

// do is call for what answers nothing that the caller wants.
func do[Req, Res any](ctx context.Context, c *Client, route api.Route[Req, Res], in Req, path ...string) error {
	_, err := call(ctx, c, route, in, path...)
	return err
}

// values are the parameters of a query that package api describes; empty ones are left out.
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

// all goes through a whole list, reading its pages as they are needed. An error is the
// last thing it gives.
func all[Req, T any](ctx context.Context, c *Client, route api.Route[Req, wire.List[T]], part func(Page) Req, path ...string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var p Page
		for {
			list, err := call(ctx, c, route, part(p), path...)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range list.Items {
				if !yield(item, nil) {
					return
				}
			}
			if list.NextPageToken == "" {
				return
			}
			p.Token = list.NextPageToken
		}
	}
}

// whole is the part of a list that is asked for by its page alone.
func whole(p Page) Page { return p }

// Collect gathers a list, up to its first error.
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

// send sends a request, again where that is harmless, and returns the body and the entity tag
// of a successful response.
func (c *Client) send(ctx context.Context, row *api.Row, path []string, query string, in any) (body []byte, tag string, err error) {
	for _, s := range path {
		if s == "" || s == "." || s == ".." { // a proxy would make another path of it
			return nil, "", fmt.Errorf("%q is not a valid name", s)
		}
	}
	address := c.base + row.URL(url.PathEscape, path...)
	if query != "" {
		address += "?" + query
	}
	if apikey.HoldsSecret(address) {
		return nil, "", &Error{
			Status: http.StatusBadRequest, Code: string(problem.SecretInURL),
			Message: "A URL must not contain a full API key or a service token. Nothing was sent.",
		}
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

// once sends one request.
func (c *Client) once(ctx context.Context, row *api.Row, address string, body []byte) (answer []byte, tag string, err error) {
	timeout, prefer := c.timeout, ""
	if c.wait >= time.Second && slices.Contains(row.Headers, api.Prefer) {
		timeout += c.wait
		prefer = fmt.Sprintf("wait=%d", c.wait/time.Second)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, row.Method, address, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if prefer != "" {
		req.Header.Set(api.Prefer, prefer)
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
	if r, ok := trace.Of(ctx); ok {
		c.onBehalf(req.Header, r)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, "", withoutURL(err)
	}
	defer func() { _ = res.Body.Close() }() // the body is read already
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, "", fmt.Errorf("read response: %w", err)
	}
	if len(answer) > maxAnswer {
		return nil, "", fmt.Errorf("the response is larger than %d bytes", maxAnswer)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, "", readError(res, answer)
	}
	return answer, res.Header.Get(api.ETag), nil
}

// onBehalf sends a call for another request: with its ID, in its trace, and for its client if
// the caller can sign that.
func (c *Client) onBehalf(h http.Header, of trace.Request) {
	h.Set(trace.Header, of.ID)
	if of.Parent != "" {
		h.Set(trace.ParentHeader, of.Parent)
	}
	if signed := trace.Vouch(c.vouching, of.Address, h.Get("Authorization"), c.now()); signed != "" {
		h.Set(trace.ClientHeader, signed)
	}
}

// withoutURL takes net/http's method and address off an error; send says them.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Error is an answer that is no success.
type Error struct {
	Status     int           // HTTP status, e.g. 404
	Code       string        // stable, e.g. "not_found"; "" when it was not Sluice that answered
	Message    string        // for people
	RetryAfter time.Duration // zero when the answer had none
	RequestID  string        // finds the request in the server's log; may be ""

	Fields []wire.FieldError // all wrong fields of the request; the first one's code and message are the error's
}

// Error says what a person needs to know, the code included.
func (e *Error) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Message)
	}
	return fmt.Sprintf("%s (%s)", e.Message, e.Code)
}

// HasCode tells whether err is an [*Error] with a code, e.g. "not_found".
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
	var told wire.Error
	if err := json.Unmarshal(body, &told); err == nil && told.Code != "" {
		e.Code, e.Message, e.Fields = told.Code, told.Message, told.Errors
	}
	return e
}

const (
	firstPause = 100 * time.Millisecond // doubles with every try
	maxPause   = 10 * time.Second       // a server that asks for more is not waited for
)

// pause waits before another try of a read, or tells that there should be none.
func (c *Client) pause(ctx context.Context, try int, err error) bool {
	wait, ok := backoff(try, err)
	if !ok || ctx.Err() != nil {
		return false
	}
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) < wait {
		return false // the reason is worth more to the caller than a timeout
	}
	return trace.Sleep(ctx, wait)
}

// backoff tells how long to wait after an error, and whether another try can
// help at all: after a failed connection, 429 and 5xx. Half of the pause is
// random, so that clients that failed together do not come back together.
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
