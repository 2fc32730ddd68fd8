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

// Filter is a jq expression that can be run.
type Filter struct{ code *gojq.Code }

// ParseFilter reads a jq expression, and says where it is wrong. It sees the value that it
// is run over and nothing else: env and $ENV are empty, and it cannot read input or
// modules. Somebody may have pasted it, and secrets are in environments.
func ParseFilter(expression string) (Filter, error) {
	query, err := gojq.Parse(expression)
	if err != nil {
		return Filter{}, misplaced(expression, err)
	}
	code, err := gojq.Compile(query)
	return Filter{code}, err
}

// misplaced adds the place, in characters from 1, at which an expression is wrong.
func misplaced(expression string, err error) error {
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

// Filtered gives what a filter makes of a value's JSON, each result with its newline: text
// as it is, all else as JSON, in one line unless it is for a terminal.
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

// plain is a value as its JSON has it, with numbers of any size.
func plain(value any) (plain any, err error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return plain, d.Decode(&plain)
}

// result shows one result, or says why there is none.
func (s Screen) result(result any) (string, error) {
	switch v := result.(type) {
	case error:
		return "", withoutTexts(v)
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

// clean keeps control characters from elsewhere off a terminal, but for newlines and the
// tabs of @tsv. What reads a pipe gets the text as it is.
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

// errHalted is an expression that has ended itself.
var errHalted = errors.New("halted")

// texts are those that gojq's messages quote, also where it has cut them.
var texts = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:"|$)`)

// withoutTexts is an error of an expression without the text that it met, since that can
// be a key that is shown this once, and errors end up in logs. What the expression itself
// wants said stays.
func withoutTexts(err error) error {
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
	return errors.New(texts.ReplaceAllString(err.Error(), `"…"`))
}
