package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/stacktest"
)

func TestLogInjection(t *testing.T) {
	stacktest.Insides(t, "it reads all logs")
	t.Parallel()
	row := attacks.Test(t, "line breaks, terminal sequences and forged log lines in all inputs",
		"each log line is one JSON object without control characters; none is forged")
	s, k := gated(t)
	url, token := s.Webhook("hello")
	const mark = "forged-by-attacker"
	forged := "x\n{\"level\":\"INFO\",\"msg\":\"" + mark + "\"}\n\x1b[2J\x1b]0;owned\x07\u2028\u0085\r"
	escaped := "x%0a%7b%22msg%22:%22" + mark + "%22%7d%0d%0a%1b[2J%00%c2%85"
	base := hostOf(t, world.Info().BaseURL)
	quoted, err := json.Marshal(forged)
	check.OK(t, err)
	for _, path := range []string{"/api/v1/projects/" + escaped, "/api/v1/webhook/" + escaped + "/x", "/" + escaped, "/api/v1/projects?page_token=" + escaped} {
		raw(t, atIngress(), "GET "+path+" HTTP/1.1\r\nHost: "+base+"\r\nX-Request-Id: a\x1b[31mb\r\nUser-Agent: \x1b[2J\r\nConnection: close\r\n\r\n")
		raw(t, atIngress(), "GET "+path+" HTTP/1.1\r\nHost: "+base+"\r\nX-Request-Id: "+escaped+"\r\nUser-Agent: "+escaped+"\r\nReferer: "+escaped+"\r\nConnection: close\r\n\r\n")
	}
	call(t, request{method: http.MethodPost, path: "/api/v1/session", body: `{"username":` + string(quoted) + `,"password":` + string(quoted) + `}`})
	admin := adminToken(t)
	for _, path := range []string{"/api/v1/projects", "/api/v1/projects/" + s.Project + "/environments", "/api/v1/projects/" + s.Project + "/environments/prod/apps", "/api/v1/users"} {
		call(t, request{method: http.MethodPost, path: path, body: `{"name":` + string(quoted) + `}`, token: admin})
	}
	s.Call("hello").Header("X-API-Key", escaped).Path("/" + escaped).Gets(http.StatusUnauthorized)
	s.Call("hello").Key(k).Header("User-Agent", escaped).Path("/" + escaped).Gets(http.StatusOK)
	s.Post(url, []byte(`{"commit":`+string(quoted)+`,"image":"registry.example/echo:v2"}`), "X-Service-Token", token, "X-GitHub-Delivery", escaped, "X-GitHub-Event", escaped)
	s.Post(url, []byte(`{"image":`+string(quoted)+`}`), "X-Service-Token", token)
	raw(t, atFunction("deploys"), "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nCe-Id: "+escaped+"\r\nCe-Type: "+escaped+"\r\nCe-Source: x\r\nCe-Specversion: 1.0\r\nCe-Subject: "+escaped+"\r\nContent-Length: 0\r\n\r\n")
	raw(t, atChecker(), "GET /check/"+escaped+"/x HTTP/1.1\r\nHost: x\r\nX-Forwarded-Method: GET\r\nConnection: close\r\n\r\n")

	files, lines := 0, 0
	for _, name := range logs(t) {
		text, err := os.ReadFile(name)
		check.OK(t, err)
		files++
		for line := range bytes.Lines(text[:bytes.LastIndexByte(text, '\n')+1]) {
			lines++
			line = bytes.TrimSuffix(line, []byte("\n"))
			var entry map[string]any
			if err := json.Unmarshal(line, &entry); err != nil {
				t.Errorf("%s: not JSON: %.200q", filepath.Base(name), line)
				break
			}
			if entry["msg"] == mark {
				t.Errorf("%s: contains the forged line", filepath.Base(name))
			}
			hidden := func(r rune) bool { return !unicode.IsPrint(r) }
			if filepath.Base(name) == "traefik-access.log" { // Traefik escapes only control characters
				hidden = unicode.IsControl
			}
			if i := bytes.IndexFunc(line, hidden); i >= 0 {
				t.Errorf("%s: control character: %.200q", filepath.Base(name), line[max(0, i-50):])
				break
			}
		}
	}
	if files < 10 || lines < 100 {
		t.Errorf("got %d lines of %d logs, want at least 100 of 10", lines, files)
	}
	row.Measured(fmt.Sprintf("%d lines of %d logs", lines, files))
}

func logs(t *testing.T) []string {
	t.Helper()
	names := []string{"traefik", "traefik-access", "checker-0", "checker-1"}
	for name := range world.Info().Functions {
		names = append(names, name)
	}
	var files []string
	for _, name := range names {
		path := filepath.Join(world.Info().LogsDir, name+".log")
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("log of %s is missing or empty: %v", name, err)
			continue
		}
		files = append(files, path)
	}
	return files
}

func TestErrorsRevealNothing(t *testing.T) {
	t.Parallel()
	row := attacks.Test(t, "broken requests; responses are searched for internal names and addresses", "only the API's code and message")
	admin := adminToken(t)
	param := regexp.MustCompile(`\{[a-z_]+\}`)
	n := 0
	for _, route := range routes() {
		if strings.HasPrefix(route, "DELETE /api/v1/session") { // ends sessions of other tests
			continue
		}
		method, pattern, _ := strings.Cut(route, " ")
		for _, value := range []string{"x", "%00", "..%2f", strings.Repeat("a", 3000)} {
			path := param.ReplaceAllLiteralString(pattern, value)
			for _, body := range []string{"", "{", `{"x":1}`, "\xff"} {
				n++
				a, err := send(t, method, path, body, admin)
				if errors.Is(err, io.ErrUnexpectedEOF) { // Knative's proxies may cut the response to a GET with a body
					a, err = send(t, method, path, body, admin)
				}
				check.OK(t, err)
				if a.Status < http.StatusBadRequest {
					continue // the audit log may contain addresses
				}
				for _, word := range []string{"goroutine", ".go:", "panic", "firestore", "rpc error", "127.0.0.1", "kube", "sluice-system", "github.com", "/tmp", "nil pointer", "runtime", "projects/sluice-local"} {
					if strings.Contains(strings.ToLower(a.Body), word) {
						t.Errorf("%s: the response contains %q: %s", route, word, a.Body)
					}
				}
				if server := a.Header.Get("Server") + a.Header.Get("X-Powered-By"); server != "" {
					t.Errorf("%s: the response names the server: %s", route, server)
				}
			}
		}
	}
	row.Measured(fmt.Sprintf("%d responses", n))
}
