package child

import (
	"io"
	"os"
	"strings"
	"sync"
)

// tailSize is in bytes.
const tailSize = 4 << 10

// tail stores the end of a child's output.
type tail struct {
	next io.Writer // may be nil
	file string    // a file that the child writes, instead of Write; may be empty

	mu   sync.Mutex
	last []byte
}

// Write stores the end and forwards everything.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if over := len(t.last) - tailSize; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	if t.next != nil {
		return t.next.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	if t.file != "" {
		return strings.TrimSpace(string(endOf(t.file)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}

func endOf(file string) []byte {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err == nil && info.Size() > tailSize {
		if _, err := f.Seek(-tailSize, io.SeekEnd); err != nil {
			return nil
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, tailSize))
	if err != nil {
		return nil
	}
	return b
}
