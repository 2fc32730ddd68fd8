package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script is a transport that returns a sequence of responses; the last repeats.
type script struct {
	answers []func(*http.Request) (*http.Response, error)
	played  int
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	play := s.answers[min(s.played, len(s.answers)-1)]
	s.played++
	return play(r)
}

func answer(status int, body string, retryAfter ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		h := http.Header{}
		if len(retryAfter) > 0 {
			h.Set("Retry-After", retryAfter[0])
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func broken(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset") }

func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func read(ctx context.Context, c *Client) error { _, err := c.Project(ctx, "p"); return err }

func change(ctx context.Context, c *Client) error { _, err := c.CreateProject(ctx, "p"); return err }

func remove(ctx context.Context, c *Client) error { return c.DeleteProject(ctx, "p") }

func deployOnce(ctx context.Context, c *Client) error {
	_, err := c.WithIdempotencyKey("run 7").Deploy(ctx, "p", "prod", "hello", "hello:v2")
	return err
}

func deployEach(ctx context.Context, c *Client) error {
	_, err := c.Deploy(ctx, "p", "prod", "hello", "hello:v2")
	return err
}

func TestRetries(t *testing.T) {
	t.Parallel()
	type answers []func(*http.Request) (*http.Response, error)
	ok, down := answer(200, `{"name":"p"}`), answer(503, `{"code":"unavailable","message":"x"}`)
	tests := []struct {
		name     string
		answers  answers
		call     func(context.Context, *Client) error
		deadline time.Duration // of the caller; 0 means none
		tries    int
		ok       bool
		min, max time.Duration
	}{
		{"a read that works", answers{ok}, read, 0, 1, true, 0, 0},
		{"a connection that breaks", answers{broken, ok}, read, 0, 2, true, 50 * time.Millisecond, 100 * time.Millisecond},
		{"a server that is down for a while", answers{down, answer(500, ""), answer(504, ""), ok}, read, 0, 4, true, 350 * time.Millisecond, 700 * time.Millisecond},
		{"a server that stays down", answers{down}, read, 0, DefaultTries, false, 350 * time.Millisecond, 700 * time.Millisecond},
		{"Retry-After within the limit", answers{answer(429, "", "7"), ok}, read, 0, 2, true, 7 * time.Second, 7 * time.Second},
		{"Retry-After above the limit", answers{answer(429, "", "60"), ok}, read, 0, 1, false, 0, 0},
		{"Retry-After after the caller's deadline", answers{answer(503, "", "7"), ok}, read, 5 * time.Second, 1, false, 0, 0},
		{"a server that hangs", answers{silent, ok}, read, 0, 2, true, DefaultTimeout, DefaultTimeout + time.Second},
		{"a caller that gives up", answers{silent, ok}, read, time.Second, 1, false, time.Second, time.Second},
		{"not found", answers{answer(404, ""), ok}, read, 0, 1, false, 0, 0},
		{"a change on a server that is down", answers{down, ok}, change, 0, 1, false, 0, 0},
		{"a change on a connection that breaks", answers{broken, ok}, change, 0, 1, false, 0, 0},
		{"a named deployment on a connection that breaks", answers{broken, ok}, deployOnce, 0, 2, true, 50 * time.Millisecond, 100 * time.Millisecond},
		{"a deployment without a name", answers{broken, ok}, deployEach, 0, 1, false, 0, 0},
		{"a deletion on a connection that breaks", answers{broken, ok}, remove, 0, 1, false, 0, 0},
		{"a change that hangs", answers{silent, ok}, change, 0, 1, false, DefaultTimeout, DefaultTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				s := &script{answers: tt.answers}
				start := time.Now()
				err := tt.call(ctx, New("http://sluice.test", WithTransport(s)))
				took := time.Since(start)
				if (err == nil) != tt.ok || s.played != tt.tries {
					t.Errorf("got error %v after %d tries, want success %v after %d", err, s.played, tt.ok, tt.tries)
				}
				if took < tt.min || took > tt.max {
					t.Errorf("duration: got %s, want %s to %s", took, tt.min, tt.max)
				}
			})
		})
	}
}

func TestWaitGate(t *testing.T) {
	t.Parallel()
	gate := func(state, message string) func(*http.Request) (*http.Response, error) {
		return answer(200, `{"name":"hello","gate":{"state":"`+state+`","since":"2026-03-01T12:00:00Z","message":"`+message+`"}}`)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) (*http.Response, error){gate("pending", ""), gate("pending", ""), gate("engaged", "")}}
		a, err := New("http://sluice.test", WithTransport(s)).WaitGate(t.Context(), "shop", "prod", "hello", "engaged")
		if err != nil || a.Gate.State != "engaged" || s.played != 3 {
			t.Errorf("got %+v, %v after %d polls, want engaged after 3", a.Gate, err, s.played)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s = &script{answers: []func(*http.Request) (*http.Response, error){gate("pending", "the checker returns 503")}}
		_, err = New("http://sluice.test", WithTransport(s)).WaitGate(ctx, "shop", "prod", "hello", "engaged")
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the checker returns 503") {
			t.Errorf("got error %v, want the deadline and the gate's message", err)
		}
		s = &script{answers: []func(*http.Request) (*http.Response, error){answer(404, `{"code":"not_found","message":"x"}`)}}
		if _, err = New("http://sluice.test", WithTransport(s)).WaitGate(t.Context(), "shop", "prod", "hello", "engaged"); !HasCode(err, "not_found") {
			t.Errorf("got error %v, want not_found", err)
		}
	})
}
