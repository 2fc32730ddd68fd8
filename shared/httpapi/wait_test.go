package httpapi

import (
	"net/http"
	"testing"
	"time"
)

func TestPreferredWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		lines []string
		want  time.Duration
	}{
		{nil, 0},
		{[]string{"wait=10"}, 10 * time.Second},
		{[]string{"WAIT = 10"}, 10 * time.Second},
		{[]string{`wait="10"; foo=bar`}, 10 * time.Second},
		{[]string{"respond-async", "return=minimal, wait=7"}, 7 * time.Second},
		{[]string{"wait=7, wait=9"}, 7 * time.Second},
		{[]string{"wait=301"}, 300 * time.Second},
		{[]string{"wait=2147483647"}, 300 * time.Second},
		{[]string{"wait=99999999999999999999"}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"wait=1.5"}, 0},
		{[]string{"wait"}, 0},
		{[]string{"wait=soon"}, 0},
		{[]string{"waiting=5"}, 0},
	}
	for _, tt := range tests {
		if got := PreferredWait(http.Header{"Prefer": tt.lines}, 300*time.Second); got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.lines, got, tt.want)
		}
	}
}
