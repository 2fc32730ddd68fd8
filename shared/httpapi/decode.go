package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/problem"
)

// MaxBody bounds a request body of the management API, in bytes (promise A3).
const MaxBody = 64 << 10

// Decode reads the request's JSON body into a T, strictly: one object, no
// unknown or repeated fields, nothing after it, valid UTF-8, at most [MaxBody] bytes.
//
// Problems: unsupported_media_type, body_too_large, malformed_json,
// unknown_field, wrong_type.
func Decode[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var v T
	if err := requireJSON(r); err != nil {
		return v, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return v, err
	}
	return v, Unmarshal(body, &v)
}

// DecodeOptional is Decode for calls whose body may be left out: an empty body
// gives the zero T.
func DecodeOptional[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var v T
	body, err := readBody(w, r)
	if err != nil || len(body) == 0 {
		return v, err
	}
	if err := requireJSON(r); err != nil {
		return v, err
	}
	return v, Unmarshal(body, &v)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		return nil, BodyProblem(err)
	}
	return body, nil
}

// BodyProblem says why a body could not be read through an [http.MaxBytesReader].
// Problems: body_too_large, malformed_json.
func BodyProblem(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return problem.New(problem.BodyTooLarge, "The request body is larger than %d bytes.", tooLarge.Limit)
	}
	return problem.New(problem.MalformedJSON, "The request body could not be read.").Because(err)
}

// Unmarshal is the strict decoder behind [Decode]; v points to a struct.
func Unmarshal(body []byte, v any) error { return unmarshal(body, v, true) }

// UnmarshalKnown is [Unmarshal] for what senders fill with more than is asked for: it
// ignores fields that v does not have, and forgives nothing else.
func UnmarshalKnown(body []byte, v any) error { return unmarshal(body, v, false) }

func unmarshal(body []byte, v any, knownOnly bool) error {
	if !utf8.Valid(body) {
		return problem.New(problem.MalformedJSON, "The request body is not valid UTF-8.")
	}
	if err := repeatedField(body); err != nil {
		return err
	}
	if string(bytes.TrimSpace(body)) == "null" { // encoding/json takes it for an object left empty
		return problem.New(problem.WrongType, "The request body must be a JSON object.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if knownOnly {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return problem.All(decodeProblem(err), wrongFields(body, v, knownOnly))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problem.New(problem.MalformedJSON, "The request body has more than one JSON value.")
	}
	return nil
}

func requireJSON(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return problem.Of(problem.UnsupportedMediaType)
	}
	return nil
}

func decodeProblem(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field == "" {
			return problem.New(problem.WrongType, "The request body must be a JSON object.")
		}
		return problem.At(wrong.Field, problem.New(problem.WrongType, "%s must be %s, not %s.", wrong.Field, kindName(wrong.Type), wrong.Value))
	}
	// encoding/json has no type for this one.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name, err := strconv.Unquote(quoted); err == nil {
			return unknownField(name)
		}
	}
	var own *problem.Error
	if errors.As(err, &own) { // from an UnmarshalJSON of package wire
		return own
	}
	return problem.Of(problem.MalformedJSON).Because(err)
}

func unknownField(name string) error {
	return problem.At(name, problem.New(problem.UnknownField, "Unknown field %q.", name))
}

// wrongFields are all fields of a body that v, a pointer to a struct, cannot be filled
// from, where the decoder ends with the first: those of the wrong type in the order of
// v's, then the unknown ones. It is nil for what is no JSON object.
func wrongFields(body []byte, v any, knownOnly bool) error {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return nil //nolint:nilerr // the decoder has said so
	}
	unknown := map[string]string{} // by name without its case, as the decoder knows it
	for name := range all {
		unknown[folded(name)] = name
	}
	var found []error
	to := reflect.TypeOf(v).Elem()
	for i := range to.NumField() {
		name, _, _ := strings.Cut(to.Field(i).Tag.Get("json"), ",")
		sent, ok := unknown[name]
		if !ok {
			continue
		}
		delete(unknown, name)
		var wrong *json.UnmarshalTypeError
		if errors.As(json.Unmarshal(all[sent], reflect.New(to.Field(i).Type).Interface()), &wrong) {
			wrong.Field = strings.TrimSuffix(name+"."+wrong.Field, ".")
			found = append(found, decodeProblem(wrong))
		}
	}
	if knownOnly {
		for _, name := range slices.Sorted(maps.Values(unknown)) {
			found = append(found, unknownField(name))
		}
	}
	return problem.All(found...)
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return "an integer in range"
	case reflect.Float32, reflect.Float64:
		return "a number in range"
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "an object"
	}
}

// repeatedField refuses an object that names a field twice: what the one side
// checks must not differ from what the other side stores. encoding/json would
// take the last one, and matches names in any letter case, so case is folded as it
// folds it: "bur\u017ft", with a long s, is "burst" too.
func repeatedField(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	type level struct {
		object bool
		key    bool // the next token is a field's name
		seen   map[string]bool
	}
	var open []level
	for {
		tok, err := d.Token()
		if err != nil {
			return nil //nolint:nilerr // the end, or malformed: the decoder itself says it better
		}
		top := len(open) - 1
		if delim, ok := tok.(json.Delim); ok && (delim == '}' || delim == ']') {
			open = open[:top]
			continue
		}
		if top >= 0 && open[top].object {
			if open[top].key {
				name := folded(tok.(string)) //nolint:forcetypeassert // a field's name is a string token
				if open[top].seen[name] {
					return problem.New(problem.MalformedJSON, "Field %q stands twice.", name)
				}
				open[top].seen[name] = true
				open[top].key = false
				continue
			}
			open[top].key = true
		}
		if delim, ok := tok.(json.Delim); ok {
			open = append(open, level{object: delim == '{', key: delim == '{', seen: map[string]bool{}})
		}
	}
}

// folded is a field's name with each letter as the first of those that differ from
// it in case alone.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		first := unicode.ToLower(r)
		for c := unicode.SimpleFold(r); c != r; c = unicode.SimpleFold(c) {
			first = min(first, unicode.ToLower(c))
		}
		return first
	}, name)
}
