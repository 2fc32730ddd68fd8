// Package stepped is a wall clock that a test can set, for the programs that it
// starts. No program of the product imports it: the tests build the functions with
// Go's -overlay, which puts [Now] in place of time.Now in copies of their sources
// (see [Overlay]), so the product has no hook for it.
//
// As when an operator or a time server sets a machine's clock, only the wall clock
// jumps: the monotonic reading, by which Go measures durations, goes on as it was.
// The jump reaches every decision that the product's own code makes; it does not
// reach what libraries ask themselves (certificates' validity in crypto/tls,
// deadlines of gRPC, the times in logs). The store and the API server keep their
// own clocks, as other machines do.
package stepped

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Variable names the file that holds the step: 8 bytes, whole seconds, in the
// machine's own byte order. Without it the clock is the machine's.
const Variable = "STEPPED_CLOCK"

// size is of the file, in bytes.
const size = 8

// Now is time.Now with the wall clock set off by the step.
func Now() time.Time {
	t := time.Now()
	if s := step(); s != nil {
		return Shift(t, s.Load())
	}
	return t
}

// step is the file, mapped into memory, so that a step is seen at once by all who
// have it; nil without one. A file that can't be had ends the program: a test would
// otherwise look at a clock that never steps.
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

// Open maps a clock's file, which it makes when there is none; the value is the step
// in seconds. It stays mapped until the process ends.
func Open(name string) (*atomic.Int64, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the mapping holds it
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	memory, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&memory[0])), nil
}

// Shift moves a time's wall clock and leaves its monotonic reading, which package
// time has no function for: Time.Add moves both. It relies on time.Time beginning
// with a word that holds, with a monotonic reading, the seconds from bit 30 on; a
// test looks whether that is still so.
func Shift(t time.Time, seconds int64) time.Time {
	const nsecShift = 30
	wall := (*uint64)(unsafe.Pointer(&t))
	*wall += uint64(seconds) << nsecShift
	return t
}
