// Package render writes what commands have to show: tables that fit the terminal,
// lists of fields, bars, JSON or YAML in the management API's own shape, and what a jq
// expression makes of that.
//
// Text from elsewhere is cleaned of control characters on its way to a terminal or a
// table. A table in a pipe has no limit of width and is never cut: what reads it
// wants it all.
package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
)

// Format is a form of output.
type Format string

// The formats.
const (
	Table Format = "table" // for people; may change
	Wide  Format = "wide"  // the same with every column, however narrow the terminal is
	JSON  Format = "json"  // the API's own shape, stable
	YAML  Format = "yaml"  // the same in YAML
)

// ForPeople tells whether it is not for programs.
func (f Format) ForPeople() bool { return f == Table || f == Wide }

// Formats lists them.
func Formats() []string { return []string{string(Table), string(Wide), string(JSON), string(YAML)} }

// Screen is where things are shown and how.
type Screen struct {
	Out    io.Writer
	Width  int // columns; 0 is no limit
	Colour bool
}

// Value writes v as JSON or YAML.
func (s Screen) Value(f Format, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", f, err)
	}
	if f == YAML {
		if b, err = yaml.JSONToYAML(b); err != nil {
			return fmt.Errorf("write %s: %w", f, err)
		}
	}
	_, err = fmt.Fprintln(s.Out, strings.TrimRight(string(b), "\n"))
	return err
}

// Line writes one line. What is formatted into it is cleaned.
func (s Screen) Line(format string, args ...any) error {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = Clean(text)
		}
	}
	_, err := fmt.Fprintf(s.Out, format+"\n", args...)
	return err
}

// Text writes a block of text as it is.
func (s Screen) Text(text string) error {
	_, err := io.WriteString(s.Out, text)
	return err
}

// Field is a line of [Screen.Fields].
type Field struct {
	Name  string
	Value string // "" shows as "-"
	Tone  Tone
}

// Fields writes names and values below each other. Values are never cut: people copy
// them.
func (s Screen) Fields(fields ...Field) error {
	widest := 0
	for _, f := range fields {
		widest = max(widest, Columns(f.Name))
	}
	for _, f := range fields {
		value := Clean(f.Value)
		if value == "" {
			value = none
		}
		if _, err := fmt.Fprintf(s.Out, "%s  %s\n", pad(f.Name+":", widest+1), s.paint(f.Tone, value)); err != nil {
			return err
		}
	}
	return nil
}

// none stands for a value that is not there.
const none = "-"

// Tone is what a value means, shown as a colour where there are any. The text always
// says the same without it.
type Tone int

// The tones.
const (
	Plain Tone = iota
	Good       // works as meant
	Watch      // on its way, or switched off
	Bad        // refused, failed, over
	Faint      // of the past
)

// paint colours a text.
func (s Screen) paint(t Tone, text string) string {
	if !s.Colour {
		return text
	}
	code := ""
	switch t {
	case Good:
		code = "32"
	case Watch:
		code = "33"
	case Bad:
		code = "31"
	case Faint:
		code = "2"
	case Plain:
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
