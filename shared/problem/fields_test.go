package problem

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func codes(err error) []string {
	p := From(err)
	all := []string{string(p.Code)}
	for _, w := range p.FieldErrors() {
		all = append(all, w.Field+" "+string(w.Code))
	}
	return all
}

func TestJoinedErrorsListEachField(t *testing.T) {
	t.Parallel()
	rate, burst, conflict := FromCode(InvalidRate), FromCode(InvalidBurst), FromCode(Conflict)
	missing := ForField("rate", FromCode(MissingField))
	source := Join(ForField("branch", FromCode(InvalidSource)), ForField("path", FromCode(InvalidSource)))
	for _, c := range []struct {
		name string
		errs []error
		want []string
	}{
		{"one", []error{nil, rate, nil}, []string{"invalid_rate", "rate invalid_rate"}},
		{"two, in their order", []error{burst, rate}, []string{"invalid_burst", "burst invalid_burst", "rate invalid_rate"}},
		{"the first of each field", []error{missing, burst, rate}, []string{"missing_field", "rate missing_field", "burst invalid_burst"}},
		{"again", []error{Join(missing, burst), rate}, []string{"missing_field", "rate missing_field", "burst invalid_burst"}},
		{"wrapped", []error{fmt.Errorf("create: %w", rate), burst}, []string{"invalid_rate", "rate invalid_rate", "burst invalid_burst"}},
		{"of an object", []error{rate, Nest("git_source", source)}, []string{
			"invalid_rate", "rate invalid_rate", "git_source.branch invalid_git_source", "git_source.path invalid_git_source",
		}},
		{"about no field", []error{conflict, rate}, []string{"conflict", "rate invalid_rate"}},
		{"no problem", []error{rate, errors.New("store unavailable")}, []string{"internal"}},
	} {
		if diff := cmp.Diff(c.want, codes(Join(c.errs...))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if err := Join(nil, nil); err != nil {
		t.Errorf("Join(nil, nil): got %v, want nil", err)
	}
	if err := ForField("rate", nil); err != nil {
		t.Errorf("ForField(nil): got %v, want nil", err)
	}
	if err := Nest("plan", nil); err != nil {
		t.Errorf("Nest(nil): got %v, want nil", err)
	}
	if diff := cmp.Diff([]string{"invalid_rate", "rate invalid_rate"}, codes(rate)); diff != "" {
		t.Errorf("argument of Join (-want +got):\n%s", diff)
	}
	var many []error
	for i := range 3 * maxWrong {
		many = append(many, ForField(fmt.Sprintf("members[%d].role", i), FromCode(InvalidRole)))
	}
	if n := len(From(Join(many...)).FieldErrors()); n != maxWrong {
		t.Errorf("invalid fields: got %d, want %d", n, maxWrong)
	}
}
