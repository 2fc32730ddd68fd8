package problem

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGateRows(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status     int
		code       Code
		retryAfter int64 // seconds; quota_exhausted sets its own for each denial
	}{
		{401, "invalid_key", 0},
		{429, "rate_limited", 1},
		{429, "quota_exhausted", 0},
		{503, "gate_unavailable", 10},
		{500, "misconfigured", 0},
	}
	for _, tt := range tests {
		t.Run(string(tt.code), func(t *testing.T) {
			t.Parallel()
			p := FromCode(tt.code)
			if p.Status() != tt.status || p.Code != tt.code || p.RetryAfterSeconds() != tt.retryAfter {
				t.Errorf("%s: got status %d with Retry-After %d, want %d with %d", p.Code, p.Status(), p.RetryAfterSeconds(), tt.status, tt.retryAfter)
			}
		})
	}
}

func TestNamedRows(t *testing.T) {
	t.Parallel()
	want := map[Code]int{
		"unknown_field": 400, "invalid_date": 400,
		"unauthenticated": 401, "invalid_token": 401,
		"forbidden":      403,
		"not_found":      404,
		"body_too_large": 413, "unsupported_media_type": 415,
		"namespace_taken": 409, "plan_in_use": 409,
		"invalid_window": 422, "window_expired": 422, "expiry_in_past": 422,
		"internal": 500,
	}
	got := map[Code]int{}
	for code := range want {
		got[code] = FromCode(code).Status()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func TestTableIsSound(t *testing.T) {
	t.Parallel()
	seen := map[Code]bool{}
	for _, r := range Table() {
		if seen[r.Code] {
			t.Errorf("%s: got two rows, want one", r.Code)
		}
		seen[r.Code] = true
		if r.Code == "" || strings.Trim(string(r.Code), "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Errorf("code: got %q, want lowercase letters and underscores", r.Code)
		}
		if r.Status < 400 || r.Status > 599 || http.StatusText(r.Status) == "" {
			t.Errorf("%s: got status %d, want a registered 4xx or 5xx status", r.Code, r.Status)
		}
		if challenge := FromCode(r.Code).Challenge(); (challenge != "") != (r.Status == http.StatusUnauthorized) {
			t.Errorf("%s: got challenge %q with status %d, want one exactly for 401", r.Code, challenge, r.Status)
		}
		if !strings.HasSuffix(r.Message, ".") {
			t.Errorf("%s: got message %q, want a sentence", r.Code, r.Message)
		}
	}
	declared := declaredCodes(t)
	if len(declared) < 5 {
		t.Fatalf("declared codes: got %d, want at least 5", len(declared))
	}
	for _, code := range declared {
		if !seen[code] {
			t.Errorf("%s has no row", code)
		}
		delete(seen, code)
	}
	for code := range seen {
		t.Errorf("%s has a row but no constant", code)
	}
}

func declaredCodes(t *testing.T) []Code {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		for _, v := range spec.Values {
			if lit, ok := v.(*ast.BasicLit); ok {
				code, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				codes = append(codes, Code(code))
			}
		}
		return true
	})
	return codes
}

func TestTableIsACopy(t *testing.T) {
	t.Parallel()
	rows := Table()
	rows[0] = Row{}
	if Table()[0].Code == "" {
		t.Error("changing the result of Table changed the table")
	}
}

func TestUnknownCodeIsInternal(t *testing.T) {
	t.Parallel()
	if s := FromCode("no_such_code").Status(); s != http.StatusInternalServerError {
		t.Errorf("status: got %d, want %d", s, http.StatusInternalServerError)
	}
}

func TestRetryAfterSeconds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		after time.Duration
		want  int64
	}{
		{-time.Second, 0},
		{0, 0},
		{1, 1},
		{time.Second, 1},
		{time.Second + 1, 2},
		{90 * time.Minute, 5400},
		{31 * 24 * time.Hour, 2_678_400},
	}
	for _, tt := range tests {
		t.Run(tt.after.String(), func(t *testing.T) {
			t.Parallel()
			if got := FromCode(QuotaExhausted).WithRetryAfter(tt.after).RetryAfterSeconds(); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestProblemFromWrappedError(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk on fire")
	conflict := FromCode(Conflict).WithCause(cause)
	tests := []struct {
		name string
		err  error
		want Code
	}{
		{"a problem", conflict, Conflict},
		{"a problem under wrapping", fmt.Errorf("update plan x: %w", conflict), Conflict},
		{"a problem among joined errors", errors.Join(errors.New("y"), conflict), Conflict},
		{"any other error", cause, Internal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := From(tt.err)
			if p.Code != tt.want || !errors.Is(p, cause) {
				t.Errorf("got %v, want %s with the cause", p, tt.want)
			}
			if strings.Contains(p.Message, "fire") {
				t.Errorf("message: got %q, want no cause", p.Message)
			}
			if !strings.Contains(p.Error(), "fire") {
				t.Errorf("error: got %q, want the cause", p.Error())
			}
			if is := Is(tt.err, tt.want); is != (tt.want != Internal) {
				t.Errorf("Is: got %v, want %v", is, tt.want != Internal)
			}
		})
	}
}

func TestChangesAreCopies(t *testing.T) {
	t.Parallel()
	p := FromCode(RateLimited)
	_ = p.WithRetryAfter(time.Hour)
	_ = p.WithCause(errors.New("x"))
	if p.RetryAfter != time.Second || p.Unwrap() != nil {
		t.Errorf("after WithRetryAfter and WithCause: got %+v, want it unchanged", p)
	}
	own := New(RateLimited, "Only %d a minute.", 60)
	if own.Message != "Only 60 a minute." || own.RetryAfter != time.Second {
		t.Errorf("New: got %+v, want the message and Retry-After", own)
	}
}
