package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/tests/check"
)

// The description that is kept, and served, is that of the table.
func TestDescription(t *testing.T) {
	t.Chdir("../..")
	want, err := describe()
	check.OK(t, err)
	got, err := os.ReadFile("shared/api/openapi.json")
	check.OK(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("make docs writes it anew (-table +kept):\n%s", diff)
	}
}

// It is OpenAPI, by the standard's own schema.
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
