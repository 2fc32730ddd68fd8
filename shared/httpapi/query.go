package httpapi

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
)

// maxParameter bounds a parameter of a query, in bytes; page tokens aside, none that
// means something comes near it.
const maxParameter = 512

// bindQuery fills a struct of package api from a query, by the tags of its fields. A
// query that cannot be read, or that gives one parameter twice, is refused: part of it
// would be lost, and more be shown than was asked for; of a page's own the first counts. So is
// one with a parameter that there is not: it may be one that is misspelt.
// Problems: invalid_parameter, invalid_page, unknown_parameter.
func bindQuery(raw string, to reflect.Value) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return problem.Of(problem.InvalidParameter).Because(err)
	}
	if err := bind(values, to); err != nil {
		return err
	}
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		unknown = append(unknown, problem.At(name, problem.New(problem.UnknownParameter, "This call has no parameter %.40q.", name)))
	}
	return problem.All(unknown...)
}

// bind takes out of values what it fills the struct from.

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
		name := to.Type().Field(i).Tag.Get("query")
		text, given, err := one(values, name)
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

func one(values url.Values, name string) (text string, given bool, err error) {
	all := values[name]
	defer delete(values, name)
	if len(all) > 1 || len(values.Get(name)) > maxParameter {
		return "", false, problem.New(problem.InvalidParameter, "%s can be given once, in at most %d characters.", name, maxParameter)
	}
	return values.Get(name), len(all) == 1, nil
}

func bindPage(values url.Values, page *api.Page) error {
	size := api.DefaultPageSize
	if text := values.Get("page_size"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > api.MaxPageSize {
			return problem.Of(problem.InvalidPage)
		}
		size = n
	}
	*page = api.Page{Size: size, Token: values.Get("page_token")}
	delete(values, "page_size")
	delete(values, "page_token")
	return nil
}
