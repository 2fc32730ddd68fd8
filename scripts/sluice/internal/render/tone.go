package render

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
