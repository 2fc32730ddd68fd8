package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

type order struct {
	Name  *string               `json:"name"`
	Count int64                 `json:"count"`
	Rate  float64               `json:"rate"`
	On    bool                  `json:"on"`
	Tags  []string              `json:"tags"`
	Part  *part                 `json:"part"`
	Parts []part                `json:"parts"`
	Quota wire.Optional[int64]  `json:"quota,omitzero"`
	Note  wire.Optional[string] `json:"note,omitzero"`
}

type part struct {
	ID string `json:"id"`
}

func TestUnmarshalTakes(t *testing.T) {
	t.Parallel()
	name := "x"
	tests := []struct {
		name, body string
		want       order
	}{
		{"an empty object", `{}`, order{}},
		{"space around it", " \n{ } \t", order{}},
		{"every field", `{"name":"x","count":1,"rate":0.5,"on":true,"tags":["a","a"],"part":{"id":"1"},"quota":2,"note":null}`, order{
			Name: &name, Count: 1, Rate: 0.5, On: true, Tags: []string{"a", "a"}, Part: &part{"1"},
			Quota: wire.Some(int64(2)), Note: wire.Null[string](),
		}},
		{"the same field in two objects", `{"part":{"id":"1"},"parts":[{"id":"2"},{"id":"3"}]}`, order{
			Part: &part{"1"}, Parts: []part{{"2"}, {"3"}},
		}},
		{"a value that reads like a field", `{"name":"x","tags":["name","name"]}`, order{Name: &name, Tags: []string{"name", "name"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got order
			check.OK(t, Unmarshal([]byte(tt.body), &got))
			check.Equal(t, "body", tt.want, got)
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		code       problem.Code
		message    string // substring
	}{
		{"nothing", "", problem.MalformedJSON, ""},
		{"half an object", `{"name":"x"`, problem.MalformedJSON, ""},
		{"no JSON", `name=x`, problem.MalformedJSON, ""},
		{"a comma too many", `{"name":"x",}`, problem.MalformedJSON, ""},
		{"single quotes", `{'name':'x'}`, problem.MalformedJSON, ""},
		{"NaN", `{"rate":NaN}`, problem.MalformedJSON, ""},
		{"a control character in text", "{\"name\":\"a\x00b\"}", problem.MalformedJSON, ""},
		{"not UTF-8", "{\"name\":\"\xff\"}", problem.MalformedJSON, "UTF-8"},
		{"a second object", `{}{}`, problem.MalformedJSON, "more than one"},
		{"something after it", `{} x`, problem.MalformedJSON, "more than one"},
		{"a field twice", `{"name":"a","name":"b"}`, problem.MalformedJSON, `"name"`},
		{"a field twice in another case", `{"name":"a","NAME":"b"}`, problem.MalformedJSON, `"name"`},
		{"a field twice, with a long s", "{\"tags\":[],\"tag\u017f\":[\"a\"]}", problem.MalformedJSON, `"tags"`},
		{"a field twice, with a Kelvin sign", "{\"k\":1,\"\u212a\":2}", problem.MalformedJSON, `"k"`},
		{"a field twice, escaped", `{"name":"a","na\u006de":"b"}`, problem.MalformedJSON, `"name"`},
		{"a field twice further in", `{"parts":[{"id":"1"},{"id":"2","id":"3"}]}`, problem.MalformedJSON, `"id"`},
		{"an unknown field", `{"nome":"x"}`, problem.UnknownField, `"nome"`},
		{"an unknown field further in", `{"part":{"size":1}}`, problem.UnknownField, `"size"`},
		{"a list", `[]`, problem.WrongType, "must be a JSON object"},
		{"text", `"x"`, problem.WrongType, "must be a JSON object"},
		{"a number for text", `{"name":1}`, problem.WrongType, "name must be a string, not number"},
		{"text for a number", `{"count":"1"}`, problem.WrongType, "count must be an integer in range, not string"},
		{"a fraction for an integer", `{"count":1.5}`, problem.WrongType, "count must be an integer in range"},
		{"a huge integer", `{"count":99999999999999999999}`, problem.WrongType, "count must be an integer in range"},
		{"a huge number", `{"rate":1e999}`, problem.WrongType, "rate must be a number in range"},
		{"a number for a switch", `{"on":1}`, problem.WrongType, "on must be true or false"},
		{"text for a list", `{"tags":"a"}`, problem.WrongType, "tags must be a list"},
		{"a number in a list of texts", `{"tags":[1]}`, problem.WrongType, "tags"},
		{"a list for an object", `{"part":[]}`, problem.WrongType, "part must be an object"},
		{"a number further in", `{"part":{"id":1}}`, problem.WrongType, "part.id must be a string"},
		{"text for an optional number", `{"quota":"1"}`, problem.WrongType, "must be"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := Unmarshal([]byte(tt.body), &order{})
			if !problem.Is(err, tt.code) || !strings.Contains(problem.From(err).Message, tt.message) {
				t.Errorf("error: got %v, want %s with %q", err, tt.code, tt.message)
			}
		})
	}
}

func post(body, contentType string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return r
}

func TestDecodeMinds(t *testing.T) {
	t.Parallel()
	exact := `{"name":"` + strings.Repeat("a", MaxBody-len(`{"name":""}`)) + `"}`
	tests := []struct {
		name string
		r    *http.Request
		code problem.Code // "" for none
	}{
		{"JSON", post(`{}`, "application/json"), ""},
		{"JSON with a parameter", post(`{}`, "application/json; charset=utf-8"), ""},
		{"JSON in any case", post(`{}`, "Application/JSON"), ""},
		{"exactly the limit", post(exact, "application/json"), ""},
		{"one byte more", post(exact+" ", "application/json"), problem.BodyTooLarge},
		{"no type", httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{}`)), problem.UnsupportedMediaType},
		{"a form's type", post(`{}`, "application/x-www-form-urlencoded"), problem.UnsupportedMediaType},
		{"text", post(`{}`, "text/plain"), problem.UnsupportedMediaType},
		{"almost JSON", post(`{}`, "application/json-patch"), problem.UnsupportedMediaType},
		{"a broken type", post(`{}`, "application/json; ="), problem.UnsupportedMediaType},
		{"no body", post("", "application/json"), problem.MalformedJSON},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode[order](httptest.NewRecorder(), tt.r)
			if tt.code == "" && err != nil || tt.code != "" && !problem.Is(err, tt.code) {
				t.Errorf("error: got %v, want %q", err, tt.code)
			}
		})
	}
}

func TestDecodeABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection reset")
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(cut))
	r.Header.Set("Content-Type", "application/json")
	_, err := Decode[order](httptest.NewRecorder(), r)
	if !problem.Is(err, problem.MalformedJSON) || !errors.Is(err, cut) {
		t.Errorf("error: got %v", err)
	}
}

func TestOptionalBody(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		r    *http.Request
		code problem.Code
	}{
		{"no body, no type", httptest.NewRequest(http.MethodPost, "/", nil), ""},
		{"an object", post(`{"count":1}`, "application/json"), ""},
		{"an unknown field", post(`{"x":1}`, "application/json"), problem.UnknownField},
		{"a body of another type", post(`x`, "text/plain"), problem.UnsupportedMediaType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			row := &api.Row{Method: http.MethodPost, Request: reflect.TypeFor[order](), Optional: true}
			body, err := readBody(httptest.NewRecorder(), tt.r)
			check.OK(t, err)
			_, err = read[order](row, tt.r, body)
			if tt.code == "" && err != nil || tt.code != "" && !problem.Is(err, tt.code) {
				t.Errorf("error: got %v, want %q", err, tt.code)
			}
		})
	}
}

func TestSurrogates(t *testing.T) {
	t.Parallel()
	for body, valid := range map[string]bool{
		`{"name":"\ud83d\ude00"}`: true, `{"name":"\\ud83d"}`: true, `{"name":"\u00e4"}`: true,
		`{"name":"\ud83d"}`: false, `{"name":"\ude00\ud83d"}`: false, `{"name":"\ud83d\u0041"}`: false, `{"name":"\ud83d`: false,
	} {
		var v order
		if err := Unmarshal([]byte(body), &v); (err == nil) != valid {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

// TestBodyMemory checks that no body makes the decoder allocate much more than its size. Clients
// can send bodies without credentials to sign in.
func TestBodyMemory(t *testing.T) {
	fill := func(open, item, end string) string {
		return open + strings.Repeat(item, (MaxBody-len(open)-len(end))/len(item)) + end
	}
	wide := func(fields int) string {
		var b strings.Builder
		for i := range fields {
			fmt.Fprintf(&b, ",%q:1", strconv.FormatInt(int64(i), 36))
		}
		return "{" + b.String()[1:] + "}"
	}
	nested := func(open, end string, depth int) string {
		return `{"extra":` + strings.Repeat(open, depth-1) + strings.Repeat(end, depth-1) + "}"
	}
	tests := []struct {
		name, body, message string
	}{
		{"arrays to the limit", nested("[", "]", maxDepth), "Unknown field"},
		{"arrays beyond the limit", nested("[", "]", maxDepth+1), "nested"},
		{"open arrays", fill("", "[", ""), "nested"},
		{"open objects", fill("", `{"a":`, ""), "nested"},
		{"numbers", fill(`{"extra":[`, "1,", "1]}"), "Unknown field"},
		{"strings", fill(`{"extra":[`, `"",`, `""]}`), "Unknown field"},
		{"empty objects", fill(`{"extra":[`, "{},", "{}]}"), "Unknown field"},
		{"small objects", fill(`{"extra":[`, `{"a":1},`, "{}]}"), "Unknown field"},
		{"fields to the limit", wide(maxFields), "Unknown field"},
		{"fields beyond the limit", wide(maxFields + 1), "more than"},
		{"as many fields as fit", wide(7000), "more than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if len(test.body) > MaxBody {
				t.Fatalf("body: got %d bytes", len(test.body))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var v order
			err := Unmarshal([]byte(test.body), &v)
			runtime.ReadMemStats(&after)
			if p := problem.From(err); p.Status() != http.StatusBadRequest || !strings.Contains(p.Message, test.message) {
				t.Errorf("error: got %v", err)
			}
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d KiB of %d KiB", allocated>>10, len(test.body)>>10)
			if allocated > 1<<20 {
				t.Errorf("body of %d bytes: got %d allocated bytes", len(test.body), allocated)
			}
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"name":"x","count":1,"tags":["a"],"part":{"id":"1"},"quota":null}`))
	f.Add([]byte(`{"name":"a","Name":"b"}`))
	f.Add([]byte("{\"tags\":[],\"tag\u017f\":[]}"))
	f.Add([]byte(`[[{"a":[1,{}]}]]`))
	f.Add([]byte(`{"a":{"a":{"a":1}},"b":[}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got order
		err := Unmarshal(body, &got)
		if err != nil {
			p := problem.From(err)
			if p.Status() != http.StatusBadRequest {
				t.Fatalf("%q: got %v", body, p)
			}
			if !utf8.ValidString(p.Message) {
				t.Fatalf("%q: got a message that is not UTF-8", body)
			}
			return
		}
		var want order
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q: accepted, but encoding/json returns %v", body, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-encoding/json +ours):\n%s", body, diff)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(body, &fields); err == nil {
			for name := range fields {
				for other := range fields {
					if name != other && strings.EqualFold(name, other) {
						t.Fatalf("%q: accepted with a repeated field", body)
					}
				}
			}
		}
	})
}

func ExampleUnmarshal() {
	err := Unmarshal([]byte(`{"nome":"Gold"}`), &wire.CreatePlan{})
	fmt.Println(problem.From(err).Code)
	// Output: unknown_field
}
