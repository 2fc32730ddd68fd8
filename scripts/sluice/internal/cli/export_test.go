package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/tests/check"
)

func TestUsageExport(t *testing.T) {
	t.Parallel()
	const csv = "key_id,name\r\nkey-ab12cd34,\x1b[31m\r\n"
	for _, tt := range []struct {
		name, args, request string
		answer              answer
		cut                 bool
		exit                int
		out, file           string // file was "before"
	}{
		{"output", "", "GET /projects/shop/environments/prod/usage.csv", answer{200, csv}, false, exitOK, csv, "before"},
		{"file", "--per day --from 2026-03-01 --to 2026-03-02 -o FILE", "GET /projects/shop/environments/prod/usage.csv?from=2026-03-01&per=day&to=2026-03-02", answer{200, csv}, false, exitOK, "", csv},
		{"cut output", "", "GET /projects/shop/environments/prod/usage.csv", answer{200, csv}, true, exitFailed, csv, "before"},
		{"cut file", "--output FILE", "GET /projects/shop/environments/prod/usage.csv", answer{200, csv}, true, exitFailed, "", "before"},
		{"rejected", "-o FILE", "GET /projects/shop/environments/prod/usage.csv", answer{429, `{"code":"rate_limited","message":"Retry."}`}, false, exitFailed, "", "before"},
		{"jq", "--jq .", "", answer{}, false, exitUsage, "", "before"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, map[string][]answer{tt.request: {tt.answer}})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f.ServeHTTP(w, r)
				if tt.cut {
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
			}))
			t.Cleanup(server.Close)
			folder := t.TempDir()
			file := filepath.Join(folder, "usage.csv")
			check.OK(t, os.WriteFile(file, []byte("before"), 0o640))
			r := newPerson(t, server.URL).runs(strings.Fields("usage export " + strings.ReplaceAll(tt.args, "FILE", file))...)
			if r.exit != tt.exit || r.out != tt.out || tt.cut != strings.Contains(r.err, "(incomplete)") {
				t.Errorf("got %s", r)
			}
			saved, err := os.ReadFile(file)
			check.OK(t, err)
			check.Equal(t, "file", tt.file, string(saved))
			info, err := os.Stat(file)
			check.OK(t, err)
			check.Equal(t, "mode", os.FileMode(0o640), info.Mode())
			if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
				t.Errorf("files: got %v, error %v, want only usage.csv", left, err)
			}
		})
	}
}

func TestSaveWritesToDevices(t *testing.T) {
	t.Parallel()
	f := newFake(t, map[string][]answer{"GET /projects/shop/environments/prod/usage.csv": ok("key_id\r\n")})
	r := newPerson(t, f.URL).runs("usage", "export", "-o", os.DevNull)
	info, err := os.Stat(os.DevNull)
	if r.exit != exitOK || err != nil || info.Mode().IsRegular() {
		t.Errorf("got %s and mode %v, error %v", r, info.Mode(), err)
	}
}
