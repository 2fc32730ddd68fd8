package child

import (
	"io"
	"os"
	"strings"
	"sync"
)

// tailSize is how much of a child's last output is kept, in bytes.
const tailSize = 4 << 10

// tail gives the end of a child's output: what was written through it, or what
// the child itself wrote to a file.
type tail struct {
	next io.Writer // takes what is written too; may be nil
	file string    // instead of writes; may be empty

	mu   sync.Mutex
	last []byte
}

// Write keeps the end and passes everything on.
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

// String gives the end; it is empty when there is no output.
func (t *tail) String() string {
	if t.file != "" {
		return strings.TrimSpace(string(endOf(t.file)))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.last))
}

// endOf reads the end of a file; of one that can't be read there is none.
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
