// Package testclock is a wall clock that tests can set for the programs that they start. The tests
// build the functions with Go's -overlay, which replaces time.Now by [Now] in copies of their
// sources (see [Overlay]).
//
// Only the wall clock of the product's own code jumps. The monotonic clock, the store, the API
// server and libraries (certificates' validity, gRPC deadlines, log times) are unaffected.
package testclock

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Variable is the environment variable with the path of the clock file: 8 bytes with the offset
// in seconds, in native byte order. If it is empty, the offset is 0.
const Variable = "STEPPED_CLOCK"

const size = 8

// Now returns the current time with the offset added to the wall clock.
func Now() time.Time {
	t := time.Now()
	if s := step(); s != nil {
		return Shift(t, s.Load())
	}
	return t
}

// step maps the clock file, or returns nil without one. It panics on an error, because the clock
// would otherwise never jump.
var step = sync.OnceValue(func() *atomic.Int64 {
	name := os.Getenv(Variable)
	if name == "" {
		return nil
	}
	s, err := Open(name)
	if err != nil {
		panic(err)
	}
	return s
})

// Open maps a clock file, which it creates if necessary, until the process ends. The value is the
// offset in seconds.
func Open(name string) (*atomic.Int64, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&memory[0])), nil
}

// Shift moves the wall clock of t and keeps its monotonic reading; Time.Add would move both. It
// relies on the layout of time.Time, where the first word contains the seconds from bit 30 on.
func Shift(t time.Time, seconds int64) time.Time {
	const nsecShift = 30
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(seconds) << nsecShift
	return t
}
