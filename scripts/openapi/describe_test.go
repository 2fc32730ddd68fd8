package main

import (
	"encoding/json"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/tests/check"
)

func TestDescription(t *testing.T) {
	t.Chdir("../..")
	want, err := describe()
	check.OK(t, err)
	got, err := os.ReadFile("shared/api/openapi.json")
	check.OK(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("openapi.json is stale; run make docs (-want +got):\n%s", diff)
	}
}

func TestDescriptionIsOpenAPI(t *testing.T) {
	t.Parallel()
	document, err := libopenapi.NewDocument(api.OpenAPI)
	check.OK(t, err)
	v, errs := validator.NewValidator(document)
	if len(errs) != 0 {
		t.Fatal(errs)
	}
	if ok, wrong := v.ValidateDocument(); !ok {
		for _, w := range wrong {
			t.Error(w)
		}
	}
}

// operation is an operation of the OpenAPI document.
type operation struct {
	Summary     string
	RequestBody struct {
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
		}
	}
}

func TestSummariesAreShort(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths, Webhooks map[string]map[string]operation
	}
	check.OK(t, json.Unmarshal(api.OpenAPI, &doc))
	for _, group := range []map[string]map[string]operation{doc.Paths, doc.Webhooks} {
		if len(group) < 10 {
			t.Errorf("paths or events: got %d, want at least 10", len(group))
		}
		for address, item := range group {
			for method, op := range item {
				if s := op.Summary; s == "" || len(s) > 80 || strings.HasSuffix(s, ".") || strings.Contains(s, ". ") {
					t.Errorf("%s %s: got summary %q, want one phrase of at most 80 characters without a period", method, address, s)
				}
			}
		}
	}
}

// TestUpdatesHaveNoDefaults checks that absent fields of a PATCH have no default: they stay
// unchanged.
func TestUpdatesHaveNoDefaults(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct {
			Schemas map[string]struct{ Properties map[string]map[string]any }
		}
	}
	check.OK(t, json.Unmarshal(api.OpenAPI, &doc))
	fields := 0
	for address, item := range doc.Paths {
		for media, body := range item["patch"].RequestBody.Content {
			for field, schema := range doc.Components.Schemas[path.Base(body.Schema.Ref)].Properties {
				fields++
				if value, ok := schema["default"]; ok {
					t.Errorf("PATCH %s, %s: field %s has the default %v", address, media, field, value)
				}
			}
		}
	}
	if fields < 10 {
		t.Errorf("fields: got %d, want at least 10", fields)
	}
}
