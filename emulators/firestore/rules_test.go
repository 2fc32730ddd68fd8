package firestore_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/emulators/firestore"
	"github.com/sluicegate/sluice/tests/check"
)

// TestRules checks that only the owner can read and write. The emulator treats server credentials
// as the owner.
func TestRules(t *testing.T) {
	t.Parallel()
	rules := filepath.Join("..", "..", "infra", "firestore", "firestore.rules")
	server, err := firestore.Start(t.Context(), firestore.Options{Rules: rules})
	check.OK(t, err)
	t.Cleanup(func() { _ = server.Close() })
	documents := "http://" + server.Host + "/v1/projects/test-rules/databases/(default)/documents"
	const document = `{"fields":{"name":{"stringValue":"x"}}}`
	tests := []struct{ name, method, url, body string }{
		{"write", http.MethodPatch, documents + "/users/ada", document},
		{"create", http.MethodPost, documents + "/keys?documentId=key-ab12cd34", document},
		{"commit", http.MethodPost, documents + ":commit", `{"writes":[{"update":{"name":"projects/test-rules/databases/(default)/documents/plans/a","fields":{}}}]}`},
		{"read", http.MethodGet, documents + "/users/ada", ""},
		{"list", http.MethodGet, documents + "/keys", ""},
		{"query", http.MethodPost, documents + ":runQuery", `{"structuredQuery":{"from":[{"collectionId":"keys"}]}}`},
		{"query of a subcollection", http.MethodPost, documents + ":runQuery", `{"structuredQuery":{"from":[{"collectionId":"deployments","allDescendants":true}]}}`},
		{"delete", http.MethodDelete, documents + "/users/ada", ""},
	}
	for _, test := range tests {
		if status := ask(t, test.method, test.url, test.body, "Bearer owner"); status != http.StatusOK {
			t.Errorf("%s by the owner: got %d, want 200", test.name, status)
		}
		if status := ask(t, test.method, test.url, test.body, ""); status != http.StatusForbidden {
			t.Errorf("%s without credentials: got %d, want 403", test.name, status)
		}
	}
}

func ask(t *testing.T, method, url, body, authorization string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	check.OK(t, err)
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	res, err := http.DefaultClient.Do(req)
	check.OK(t, err)
	_ = res.Body.Close()
	return res.StatusCode
}
