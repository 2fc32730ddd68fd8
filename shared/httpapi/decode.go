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
	if err := checkShape(body); err != nil {
		return err
	}
	if knownOnly && loneSurrogate(body) {
		return problem.New(problem.MalformedJSON, "The request body contains half of a surrogate pair.")
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

const (
	maxDepth  = 32  // of the objects and arrays of a body
	maxFields = 256 // of one object
)

// checkShape refuses a body that is nested too deep, an object with too many fields, and
// one that names a field twice: what the one side checks must not differ from what the
// other side stores. encoding/json would take the last one, and matches names in any
// letter case, so case is folded as it folds it: "bur\u017ft", with a long s, is "burst"
// too. Only the names of fields are copied. What is wrong otherwise is left to the decoder.
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

// shape is the objects and arrays that are open at one place of a body.
type shape struct {
	open    []level
	outside level
}

type level struct {
	object bool
	key    bool     // the next string is a field's name
	seen   []string // names of fields
}

func (s *shape) top() *level {
	if len(s.open) == 0 {
		return &s.outside
	}
	return &s.open[len(s.open)-1]
}

// begin opens an object or an array.
func (s *shape) begin(object bool) error {
	if len(s.open) == maxDepth {
		return problem.New(problem.MalformedJSON, "The request body is nested more than %d levels deep.", maxDepth)
	}
	s.open = s.open[:len(s.open)+1] // with the memory of the last one at this depth
	*s.top() = level{object: object, key: object, seen: s.top().seen[:0]}
	return nil
}

// text takes a string with its quotes: the name of a field, or a value.
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

// quoted returns the string, with its quotes, that s begins with; nil if it does not end.
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

// loneSurrogate reports whether a JSON text has an escape for half of a surrogate pair.
// encoding/json replaces it, so the stored text would differ from the one that was sent.
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

// escapeLength is the length of an escape such as "\u00e4".
const escapeLength = 6

// escaped returns the rune of the \u escape that s begins with, or -1.
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

// fieldName returns the folded name in a quoted string.
func fieldName(text []byte) string {
	name := string(text[1 : len(text)-1])
	if strings.Contains(name, `\`) {
		_ = json.Unmarshal(text, &name) // the decoder refuses what is not valid
	}
	return folded(name)
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
