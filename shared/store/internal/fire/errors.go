package fire

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The errors of calls. An error may match two of them.
var (
	ErrNotFound    = errors.New("the document does not exist")
	ErrExists      = errors.New("the document already exists")
	ErrStale       = errors.New("another commit intervened")
	ErrUnavailable = errors.New("the store is unavailable")
	ErrUnclear     = errors.New("the commit may have succeeded")
)

// failed matches the errors above. The library's error remains in the chain: the library retries
// transactions by its code.
type failed struct{ error }

func failure(err error) error {
	if err == nil {
		return nil
	}
	return failed{err}
}

func (f failed) Unwrap() error { return f.error }

func (f failed) Is(target error) bool {
	code, lost := status.Code(f.error), lostTransaction(f.error)
	switch target {
	case ErrNotFound:
		return code == codes.NotFound
	case ErrExists:
		return code == codes.AlreadyExists
	case ErrStale:
		return code == codes.Aborted || code == codes.FailedPrecondition
	case ErrUnclear:
		return code == codes.Unavailable || code == codes.Canceled || lost
	case ErrUnavailable: // Internal and Canceled are also failures of the store or the connection
		return code == codes.InvalidArgument && lost ||
			slices.Contains([]codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Canceled}, code)
	}
	return false
}

// lostTransaction reports whether Firestore no longer knows the transaction: the connection broke,
// and the library resent the commit. The first commit may have succeeded. Only the message
// identifies this error.
func lostTransaction(err error) bool {
	text := status.Convert(err).Message()
	return strings.Contains(text, "ransaction is invalid or closed") || // the emulator
		strings.Contains(text, "ransaction has expired or is no longer valid")
}
