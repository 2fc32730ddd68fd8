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
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluicegate/sluice/shared/problem"
)

// MaxBody is the maximum size of a request body in the management API, in bytes (promise A3).
const MaxBody = 64 << 10

// Decode decodes the JSON body of a request strictly: a single object in valid UTF-8, without
// unknown or repeated fields, of at most [MaxBody] bytes. It returns an unsupported_media_type,
// body_too_large, malformed_json, unknown_field or wrong_type problem.
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

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		return nil, BodyProblem(err)
	}
	return body, nil
}

// BodyProblem converts an error of an [http.MaxBytesReader] to a problem.
func BodyProblem(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return problem.New(problem.BodyTooLarge, "The request body is larger than %d bytes.", tooLarge.Limit)
	}
	return problem.New(problem.MalformedJSON, "The request body could not be read.").WithCause(err)
}

// Unmarshal decodes a body strictly, as [Decode] does. v points to a struct.
func Unmarshal(body []byte, v any) error { return unmarshal(body, v, true) }

// UnmarshalKnown is [Unmarshal], but ignores unknown fields and accepts lone surrogates.
func UnmarshalKnown(body []byte, v any) error { return unmarshal(body, v, false) }

func unmarshal(body []byte, v any, knownOnly bool) error {
	if !utf8.Valid(body) {
		return problem.New(problem.MalformedJSON, "The request body is not valid UTF-8.")
	}
	if err := checkShape(body); err != nil {
		return err
	}
	if knownOnly && loneSurrogate(body) {
		return problem.New(problem.MalformedJSON, "The request body contains half of a surrogate pair.")
	}
	if string(bytes.TrimSpace(body)) == "null" { // encoding/json would accept it as an empty object
		return problem.New(problem.WrongType, "The request body must be a JSON object.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if knownOnly {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		return problem.Join(decodeProblem(err), wrongFields(body, v, knownOnly))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problem.New(problem.MalformedJSON, "The request body has more than one JSON value.")
	}
	return nil
}

func requireJSON(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return problem.FromCode(problem.UnsupportedMediaType)
	}
	return nil
}

func decodeProblem(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		if wrong.Field == "" {
			return problem.New(problem.WrongType, "The request body must be a JSON object.")
		}
		return problem.ForField(wrong.Field, problem.New(problem.WrongType, "%s must be %s, not %s.", wrong.Field, kindName(wrong.Type), wrong.Value))
	}
	// encoding/json has no type for this error.
	if quoted, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		if name, err := strconv.Unquote(quoted); err == nil {
			return unknownField(name)
		}
	}
	var own *problem.Error
	if errors.As(err, &own) { // from an UnmarshalJSON of package wire
		return own
	}
	return problem.FromCode(problem.MalformedJSON).WithCause(err)
}

func unknownField(name string) error {
	return problem.ForField(name, problem.New(problem.UnknownField, "Unknown field %q.", name))
}

func wrongFields(body []byte, v any, knownOnly bool) error {
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		return nil //nolint:nilerr // the decoder reports this error
	}
	unknown := map[string]string{} // by case-folded name, as in the decoder
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
	return problem.Join(found...)
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

const (
	maxDepth  = 32  // nested objects and arrays in a body
	maxFields = 256 // fields in an object
)

// checkShape rejects bodies that are nested too deeply, and objects with too many or repeated
// fields: encoding/json would silently use the last one. It folds the case of names as
// encoding/json does.
func checkShape(body []byte) error {
	s := shape{open: make([]level, 0, maxDepth)}
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{', '[':
			if err := s.begin(body[i] == '{'); err != nil {
				return err
			}
		case '}', ']':
			s.open = s.open[:max(0, len(s.open)-1)]
		case ',':
			s.top().key = s.top().object
		case '"':
			text := quoted(body[i:])
			i += max(0, len(text)-1)
			if err := s.text(text); err != nil {
				return err
			}
		}
	}
	return nil
}

type shape struct {
	open    []level
	outside level
}

type level struct {
	object bool
	key    bool     // the next string is a field name
	seen   []string // field names
}

func (s *shape) top() *level {
	if len(s.open) == 0 {
		return &s.outside
	}
	return &s.open[len(s.open)-1]
}

func (s *shape) begin(object bool) error {
	if len(s.open) == maxDepth {
		return problem.New(problem.MalformedJSON, "The request body is nested more than %d levels deep.", maxDepth)
	}
	s.open = s.open[:len(s.open)+1] // reuses the memory of the last level at this depth
	*s.top() = level{object: object, key: object, seen: s.top().seen[:0]}
	return nil
}

func (s *shape) text(text []byte) error {
	top := s.top()
	if !top.key || text == nil {
		return nil
	}
	top.key = false
	name := fieldName(text)
	if slices.Contains(top.seen, name) {
		return problem.New(problem.MalformedJSON, "Field %q appears twice.", name)
	}
	if len(top.seen) == maxFields {
		return problem.New(problem.MalformedJSON, "An object has more than %d fields.", maxFields)
	}
	top.seen = append(top.seen, name)
	return nil
}

func quoted(s []byte) []byte {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1]
		}
	}
	return nil
}

// loneSurrogate reports whether a JSON text contains an escape for half of a surrogate pair.
// encoding/json would replace it, so the stored text would differ from the request.
func loneSurrogate(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		r := escaped(text[i:])
		switch {
		case r < 0: // another escape
			i++
		case !utf16.IsSurrogate(r):
			i += escapeLength - 1
		case utf16.DecodeRune(r, escaped(text[i+escapeLength:])) == unicode.ReplacementChar:
			return true
		default:
			i += 2*escapeLength - 1
		}
	}
	return false
}

const escapeLength = 6

func escaped(s []byte) rune {
	if len(s) < escapeLength || s[1] != 'u' || s[0] != '\\' {
		return -1
	}
	n, err := strconv.ParseUint(string(s[2:escapeLength]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

func fieldName(text []byte) string {
	name := string(text[1 : len(text)-1])
	if strings.Contains(name, `\`) {
		_ = json.Unmarshal(text, &name) // the decoder rejects invalid strings
	}
	return folded(name)
}

// folded returns a name in which each rune is replaced by the smallest rune of its case folding
// orbit.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		first := unicode.ToLower(r)
		for c := unicode.SimpleFold(r); c != r; c = unicode.SimpleFold(c) {
			first = min(first, unicode.ToLower(c))
		}
		return first
	}, name)
}
