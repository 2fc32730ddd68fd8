// Package render writes the output of commands: tables, lists of fields, bars, JSON, YAML and the
// results of jq expressions.
//
// It replaces control characters in tables and on terminals. A table fits the width of the terminal;
// in a pipe, it is never cut.
package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"
)

// Format is an output format.
type Format string

// The formats.
const (
	Table Format = "table" // for people; may change between versions
	Wide  Format = "wide"  // like table, but always with all columns
	JSON  Format = "json"  // the type of the API; stable
	YAML  Format = "yaml"  // like json, in YAML
	IDs   Format = "ids"   // one ID per line, for commands that list keys
)

// ForPeople reports whether the format is for people and not for programs.
func (f Format) ForPeople() bool { return f == Table || f == Wide }

// Formats returns the formats of all commands.
func Formats() []string { return []string{string(Table), string(Wide), string(JSON), string(YAML)} }

// Screen is the destination of the output.
type Screen struct {
	Out    io.Writer
	Width  int // in columns; 0 means no limit
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

// Line writes one line. It replaces control characters in string arguments.
func (s Screen) Line(format string, args ...any) error {
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = Clean(text)
		}
	}
	_, err := fmt.Fprintf(s.Out, format+"\n", args...)
	return err
}

// Text writes a text unchanged.
func (s Screen) Text(text string) error {
	_, err := io.WriteString(s.Out, text)
	return err
}

// Field is a line of [Screen.Fields].
type Field struct {
	Name  string
	Value string // "" is shown as "-"
	Tone  Tone
}

// Fields writes one line for each field. It never cuts values, because users copy them.
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

const none = "-"

// Tone is the meaning of a value, shown as a color if the terminal supports colors.
type Tone int

// The tones.
const (
	Plain Tone = iota
	Good       // works
	Watch      // in progress, or disabled
	Bad        // denied, failed or expired
	Faint      // past
)

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
