package fire

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluicegate/sluice/tests/check"
)

func TestFailure(t *testing.T) {
	t.Parallel()
	all := []error{ErrNotFound, ErrExists, ErrStale, ErrUnavailable, ErrUnclear}
	for _, test := range []struct {
		name string
		err  error
		want []error
	}{
		{"none", nil, nil},
		{"absent", status.Error(codes.NotFound, ""), []error{ErrNotFound}},
		{"present", status.Error(codes.AlreadyExists, ""), []error{ErrExists}},
		{"conflict", status.Error(codes.Aborted, ""), []error{ErrStale}},
		{"another version", status.Error(codes.FailedPrecondition, ""), []error{ErrStale}},
		{"no response in time, by the store", status.Error(codes.DeadlineExceeded, ""), []error{ErrUnavailable}},
		{"refused", status.Error(codes.Unavailable, "connection refused"), []error{ErrUnavailable, ErrUnclear}},
		{"canceled by the store", fmt.Errorf("commit: %w", status.Error(codes.Canceled, "")), []error{ErrUnavailable, ErrUnclear}},
		{"commit sent again after a reset", status.Error(codes.InvalidArgument, "Transaction is invalid or closed."), []error{ErrUnavailable, ErrUnclear}},
		{"the same, in production", status.Error(codes.InvalidArgument, "The referenced transaction has expired or is no longer valid."), []error{ErrUnavailable, ErrUnclear}},
		{"an invalid call", status.Error(codes.InvalidArgument, "Document name \"x\" is invalid."), nil},
		{"another error", errors.New("unknown"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := failure(test.err)
			var got []error
			for _, kind := range all {
				if errors.Is(err, kind) {
					got = append(got, kind)
				}
			}
			check.Equal(t, "kinds", fmt.Sprint(test.want), fmt.Sprint(got))
			if status.Code(err) != status.Code(test.err) {
				t.Errorf("got code %v, want %v, by which the library retries", status.Code(err), status.Code(test.err))
			}
		})
	}
}
