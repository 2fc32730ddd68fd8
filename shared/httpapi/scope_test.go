package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestBaseURL(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, configured, proto, want string }{
		{"as reached", "", "", "http://api.example.com:8080"},
		{"as reached through a proxy", "", "https", "https://api.example.com:8080"},
		{"a proxy's other words", "", "javascript", "http://api.example.com:8080"},
		{"configured", "https://sluice.example.com/", "http", "https://sluice.example.com"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "http://api.example.com:8080/", http.NoBody)
			r.Header.Set("X-Forwarded-Proto", tt.proto)
			if got := (Scope{request: r}).BaseURL(tt.configured); got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}
