package httpapi

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
)

const maxParameter = 512

// bindQuery decodes a query into a struct of package api, by the tags of its fields. Unknown and
// repeated parameters are rejected: ignoring them would return more than the caller requested.
// bindQuery returns an invalid_parameter, invalid_page or unknown_parameter problem.
func bindQuery(raw string, to reflect.Value) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return problem.FromCode(problem.InvalidParameter).WithCause(err)
	}
	if err := checkRepeated(values); err != nil {
		return err
	}
	if err := bind(values, to); err != nil {
		return err
	}
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		unknown = append(unknown, problem.ForField(name, problem.New(problem.UnknownParameter, "Unknown query parameter %.40q.", name)))
	}
	return problem.Join(unknown...)
}

func checkRepeated(values url.Values) error {
	var repeated []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			repeated = append(repeated, invalid(name, "Query parameter %.40q must appear at most once.", name))
		}
	}
	return problem.Join(repeated...)
}

func invalid(name, format string, args ...any) error {
	return problem.ForField(name, problem.New(problem.InvalidParameter, format, args...))
}

func bind(values url.Values, to reflect.Value) error {
	if page, ok := to.Addr().Interface().(*api.Page); ok {
		return bindPage(values, page)
	}
	for i := range to.NumField() {
		field := to.Field(i)
		if to.Type().Field(i).Anonymous {
			if err := bind(values, field); err != nil {
				return err
			}
			continue
		}
		tag := to.Type().Field(i).Tag
		name := tag.Get("query")
		text, given, err := one(values, name, api.Allowed(tag.Get("kind")))
		if err != nil {
			return err
		}
		switch target := field.Addr().Interface().(type) {
		case *string:
			*target = text
		case **string:
			if given {
				*target = &text
			}
		default:
			return fmt.Errorf("query parameter %s is a %T", name, target)
		}
	}
	return nil
}

func one(values url.Values, name string, allowed []string) (text string, given bool, err error) {
	given = values.Has(name)
	text = values.Get(name)
	delete(values, name)
	if len(text) > maxParameter {
		return "", false, invalid(name, "%s must have at most %d bytes.", name, maxParameter)
	}
	if text != "" && allowed != nil && !slices.Contains(allowed, text) {
		return "", false, invalid(name, "%s must be one of %s.", name, strings.Join(allowed, ", "))
	}
	return text, given, nil
}

func bindPage(values url.Values, page *api.Page) error {
	size := api.DefaultPageSize
	if text := values.Get("page_size"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > api.MaxPageSize {
			return problem.FromCode(problem.InvalidPage)
		}
		size = n
	}
	*page = api.Page{Size: size, Token: values.Get("page_token")}
	delete(values, "page_size")
	delete(values, "page_token")
	return nil
}
