package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	p := newPerson(t, newFake(t, shop()).URL)
	p.terminal = true
	if r := p.runs("app", "open", "hello"); r.exit != exitOK || len(p.opened) != 1 || !strings.HasPrefix(p.opened[0], " http") {
		t.Fatalf("%+v, opened %q", r, p.opened)
	}
	address := p.opened[0][1:]
	p.variable["BROWSER"] = "lynx"
	if r := p.runs("app", "open", "hello"); r.exit != exitOK || !slices.Contains(p.opened, "lynx "+address) {
		t.Errorf("%+v, opened %q", r, p.opened)
	}
	p.noOpener = true
	if r := p.runs("app", "open", "hello"); r.exit != exitFailed || !strings.Contains(r.err, address) {
		t.Errorf("without a browser: %+v", r)
	}
	for _, script := range [][]string{{"app", "open", "hello"}, {"app", "open", "hello", "-o", "json"}} {
		p.terminal, p.opened = len(script) > 3, nil
		if r := p.runs(script...); r.exit != exitOK || !strings.Contains(r.out, address) || len(p.opened) > 0 {
			t.Errorf("%q: %+v, opened %q", script, r, p.opened)
		}
	}
}
