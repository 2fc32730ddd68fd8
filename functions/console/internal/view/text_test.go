package view

import (
	"strings"
	"testing"
	"time"
)

func TestDisplayTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		before time.Duration
		want   string
	}{
		{0, "just now"},
		{-30 * time.Second, "just now"},
		{59 * time.Second, "just now"},
		{time.Minute, "1 min ago"},
		{59 * time.Minute, "59 min ago"},
		{3 * time.Hour, "3 h ago"},
		{25 * time.Hour, "yesterday"},
		{6 * 24 * time.Hour, "6 days ago"},
		{8 * 24 * time.Hour, "6 Mar 2026"},
		{-time.Hour, "14 Mar 2026, 13:00 UTC"},
	}
	for _, tt := range tests {
		if got := NewDisplayTime(now.Add(-tt.before), now).Short; got != tt.want {
			t.Errorf("%s before: got %q, want %q", tt.before, got, tt.want)
		}
	}
}

func TestImageTag(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"registry.example:5000/shop/hello:v2":      "v2",
		"registry.example:5000/shop/hello":         "registry.example:5000/shop/hello",
		"hello@sha256:0123456789abcdef0123":        "sha256:0123456789ab",
		"registry.example/hello:v2@sha256:0123456": "sha256:0123456",
		"": "",
	} {
		if got := imageTag(image); got != want {
			t.Errorf("%q: got %q, want %q", image, got, want)
		}
	}
}

func TestParted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"registry.example:5000/shop/hello:v2": "registry.example: 5000/ shop/ hello: v2",
		"hello@sha256:0123":                   "hello@ sha256: 0123",
		"https://git.example/shop.git":        "https://git.example/ shop.git",
		"http://hello.localhost":              "http://hello.localhost",
		"require_api_key":                     "require_ api_ key",
		"/_":                                  "/_",
		"a\nb/":                               "a\nb/",
		"":                                    "",
	} {
		got := parted(text)
		if strings.Join(got, " ") != want || strings.Join(got, "") != text {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
