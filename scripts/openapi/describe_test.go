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
