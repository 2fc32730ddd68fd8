package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluicegate/sluice/emulators/stack/internal/leftover"
)

// Down stops the stack that lives in a directory, whoever started it, and ends
// what one that was killed may have left. It says what it did.
func Down(ctx context.Context, dir string) (string, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "no stack is running", nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the stack: %w", err)
	}
	stopped, err := leftover.Stop(ctx, dir)
	if err != nil {
		return "", err
	}
	left, err := leftover.End(ctx, dir)
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(filepath.Join(dir, infoFile)); err != nil {
		return "", fmt.Errorf("remove %s: %w", infoFile, err)
	}
	switch {
	case len(left) > 0:
		return fmt.Sprintf("the stack is down; ended %d processes that were left", len(left)), nil
	case stopped:
		return "the stack is down", nil
	default:
		return "no stack is running", nil
	}
}
