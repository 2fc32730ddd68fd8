package render

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"
)

// Filter is a compiled jq expression.
type Filter struct{ code *gojq.Code }

// ParseFilter compiles a jq expression. So that a pasted expression cannot read secrets, env and
// $ENV are empty, and it cannot read input or modules. An error contains the position of the fault.
func ParseFilter(expression string) (Filter, error) {
	query, err := gojq.Parse(expression)
	if err != nil {
		return Filter{}, withPosition(expression, err)
	}
	code, err := gojq.Compile(query)
	return Filter{code}, err
}

// withPosition adds the position of the fault to an error, in characters from 1.
func withPosition(expression string, err error) error {
	var wrong *gojq.ParseError
	if !errors.As(err, &wrong) {
		return err
	}
	if wrong.Token == "" {
		return fmt.Errorf("unexpected end of the expression after character %d", utf8.RuneCountInString(strings.TrimSpace(expression)))
	}
	before := strings.TrimSuffix(expression[:min(wrong.Offset, len(expression))], wrong.Token)
	return fmt.Errorf("%w at character %d", err, utf8.RuneCountInString(before)+1)
}

// Filtered returns the results of a filter for the JSON of a value, each with a newline. A string
// is unquoted; other results are JSON, indented on a terminal and otherwise on one line.
func (s Screen) Filtered(ctx context.Context, f Filter, value any) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		input, err := plain(value)
		if err != nil {
			yield("", err)
			return
		}
		results := f.code.RunWithContext(ctx, input)
		for result, more := results.Next(); more; result, more = results.Next() {
			text, err := s.result(result)
			if errors.Is(err, errHalted) || !yield(text, err) || err != nil {
				return
			}
		}
	}
}

func plain(value any) (plain any, err error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return plain, d.Decode(&plain)
}

func (s Screen) result(result any) (string, error) {
	switch v := result.(type) {
	case error:
		return "", redactStrings(v)
	case string:
		return s.clean(v) + "\n", nil
	}
	b, err := gojq.Marshal(result)
	if err != nil || s.Width == 0 {
		return string(b) + "\n", err
	}
	var indented bytes.Buffer
	err = json.Indent(&indented, b, "", "  ")
	return s.clean(indented.String()) + "\n", err
}

// clean replaces control characters on a terminal, except newlines and the tabs of @tsv. In a pipe,
// the text does not change.
func (s Screen) clean(text string) string {
	if s.Width == 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || r == '\t' {
			b.WriteRune(r)
			continue
		}
		b.WriteString(Clean(string(r)))
	}
	return b.String()
}

var errHalted = errors.New("halted")

// quotedStrings matches the strings in gojq's messages, including truncated ones.
var quotedStrings = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:"|$)`)

// redactStrings removes the strings from an error of an expression: errors end up in logs, and a
// string can be a full key. It does not change messages of error(…).
func redactStrings(err error) error {
	var halt *gojq.HaltError
	var own gojq.ValueError
	switch {
	case errors.As(err, &halt) && halt.Value() == nil:
		return errHalted
	case errors.As(err, &own):
		if text, ok := own.Value().(string); ok {
			return errors.New(text)
		}
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return errors.New(quotedStrings.ReplaceAllString(err.Error(), `"…"`))
}
