// Package spent records the requests that a process spends from its leases in a memory-mapped
// file. After a crash, the next process returns exactly the unspent requests (package lease).
//
// # Layout
//
// Each process writes one file, named after its run. A header with the boot ID of the machine is
// followed by slots of 32 bytes, one per lease. A slot contains the key's prefix (0 if free), the
// period, the number of spent requests, and a checksum of prefix and period. The file grows in
// chunks of 64 KiB, up to 4 MiB. A chunk is written before it is mapped, so that its space is
// allocated and no memory access to it can fail.
//
// The kernel keeps the mapped data of a killed process. A new slot gets its prefix last, and a
// freed slot loses it first, so a reader finds a complete slot or none.
//
// # Unusable records
//
// In the following cases, the unspent requests of a lease stay leased:
//
//   - The process may still run: it holds an exclusive lock (flock), which ends only with the
//     last thread of the process, because the mapping holds the open file.
//   - The machine has restarted since: its disks may lack the last data.
//   - The header or the slot is damaged or has another layout, or a lease has two slots.
//   - The file was full, so the lease has no slot.
package spent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/sluicegate/sluice/shared/usage"
)

const (
	version       = 1
	chunkSize     = 64 << 10 // a multiple of every page size
	slotSize      = 32
	slotsPerChunk = chunkSize / slotSize
	maxChunks     = 64
	maxFiles      = 3

	suffix = ".spent"

	headerSlots = 4
	headerSize  = headerSlots * slotSize
	bootSize    = 36 // length of a UUID
	runSize     = 32
)

const magic = "sluspent"

// Dir is the directory of a pod's successive processes.
type Dir struct {
	path string
	boot string
}

const bootFile = "/proc/sys/kernel/random/boot_id"

// Open returns the directory at path. It returns an error if the machine has no boot ID.
func Open(path string) (*Dir, error) {
	text, err := os.ReadFile(bootFile)
	if err != nil {
		return nil, fmt.Errorf("read boot ID: %w", err)
	}
	return &Dir{path: path, boot: strings.TrimSpace(string(text))}, nil
}

func (d *Dir) header(run string) ([]byte, error) {
	if run == "" || len(run) > runSize || d.boot == "" || len(d.boot) > bootSize {
		return nil, fmt.Errorf("run %q or boot %q has the wrong length", run, d.boot)
	}
	h := make([]byte, headerSize)
	copy(h, magic)
	binary.NativeEndian.PutUint64(h[8:], version)
	copy(h[16:16+bootSize], d.boot)
	copy(h[16+bootSize:16+bootSize+runSize], run)
	binary.NativeEndian.PutUint64(h[headerSize-8:], uint64(crc32.ChecksumIEEE(h[:headerSize-8])))
	return h, nil
}

// File is the file of the running process.
type File struct {
	file *os.File
	name string

	mu     sync.Mutex
	chunks [][]byte
	free   []place
}

type place int // index of a slot

// Record is the record of one lease.
type Record struct {
	Spent *atomic.Int64
	place place
}

// Create creates the file of a process. It stays locked and mapped until the process ends.
func (d *Dir) Create(run string) (*File, error) {
	header, err := d.header(run)
	if err != nil {
		return nil, err
	}
	others, err := d.names()
	if err != nil {
		return nil, err
	}
	if len(others) >= maxFiles {
		return nil, fmt.Errorf("%s already contains the files of %d processes", d.path, len(others))
	}
	name := filepath.Join(d.path, run+suffix)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator names the folder
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	s := &File{file: f, name: name}
	if err := s.begin(header); err != nil {
		return nil, errors.Join(err, s.Discard(), s.Close())
	}
	return s, nil
}

// begin locks the file before it writes the header. A valid header without a lock thus means that
// the process has ended.
func (f *File) begin(header []byte) error {
	if err := lock(f.file); err != nil {
		return err
	}
	if !f.grow() {
		return fmt.Errorf("no disk space for %s", f.name)
	}
	copy(f.chunks[0], header)
	f.free = slices.DeleteFunc(f.free, func(p place) bool { return p < headerSlots })
	return nil
}

func lock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// grow reports whether it could add a chunk. The caller holds mu.
func (f *File) grow() bool {
	n := len(f.chunks)
	if n == maxChunks {
		return false
	}
	if _, err := f.file.WriteAt(make([]byte, chunkSize), int64(n)*chunkSize); err != nil {
		return false
	}
	chunk, err := syscall.Mmap(int(f.file.Fd()), int64(n)*chunkSize, chunkSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return false
	}
	f.chunks = append(f.chunks, chunk)
	for i := range slotsPerChunk {
		f.free = append(f.free, place((n+1)*slotsPerChunk-1-i))
	}
	return true
}

const (
	prefixWord = iota
	termWord
	spentWord
	checkWord
)

func (f *File) word(p place, at int) *atomic.Int64 {
	offset := int(p)%slotsPerChunk*slotSize + at*8
	return (*atomic.Int64)(unsafe.Pointer(&f.chunks[int(p)/slotsPerChunk][offset])) //nolint:gosec // aligned, and never unmapped
}

// Add adds a record of spent requests. ok is false if the file is full or the lease cannot be
// encoded.
func (f *File) Add(t usage.QuotaPeriod, spent int64) (r Record, ok bool) {
	prefix, term, ok := words(t)
	if !ok {
		return Record{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.free) == 0 && !f.grow() {
		return Record{}, false
	}
	p := f.free[len(f.free)-1]
	f.free = f.free[:len(f.free)-1]
	r = Record{Spent: f.word(p, spentWord), place: p}
	r.Spent.Store(spent)
	f.word(p, termWord).Store(term)
	f.word(p, checkWord).Store(checksum(prefix, term))
	f.word(p, prefixWord).Store(prefix)
	return r, true
}

// Remove frees the slot of a record.
func (f *File) Remove(r Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.word(r.place, prefixWord).Store(0)
	f.free = append(f.free, r.place)
}

// Close unmaps and unlocks the file, like the end of the process.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.file.Close()
	for _, chunk := range f.chunks {
		err = errors.Join(err, syscall.Munmap(chunk))
	}
	return err
}

// Discard deletes the file.
func (f *File) Discard() error { return os.Remove(f.name) }

// Ended is the file of an ended process. It is locked until it is closed.
type Ended struct {
	Run     string
	Spent   []usage.Ended
	Damaged int

	file *os.File
}

// Ended returns the files of ended processes and the number of locked files. It deletes unusable
// files, and returns the reasons in err.
func (d *Dir) Ended() (all []*Ended, locked int, err error) {
	names, err := d.names()
	for _, name := range names {
		e, why := d.open(name)
		switch {
		case errors.Is(why, syscall.EWOULDBLOCK):
			locked++
		case why != nil:
			err = errors.Join(err, why)
		case len(e.Spent)+e.Damaged == 0:
			err = errors.Join(err, e.Discard())
		default:
			all = append(all, e)
		}
	}
	return all, locked, err
}

func (d *Dir) names() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (d *Dir) open(name string) (*Ended, error) {
	f, err := os.OpenFile(filepath.Join(d.path, name), os.O_RDWR|syscall.O_NOFOLLOW, 0) //nolint:gosec // from a list of the folder
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	e := &Ended{Run: strings.TrimSuffix(name, suffix), file: f}
	if err := e.read(d); err != nil {
		return nil, errors.Join(err, e.Discard())
	}
	return e, nil
}

func (e *Ended) read(d *Dir) error {
	header, err := d.header(e.Run)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(e.file, 0, maxChunks*chunkSize))
	if err != nil {
		return fmt.Errorf("read %s: %w", e.file.Name(), err)
	}
	n := len(text)
	if n < chunkSize || !bytes.Equal(text[:headerSize], header) {
		return fmt.Errorf("%s%s is damaged, or belongs to another boot or layout", e.Run, suffix)
	}
	spent, count := map[usage.QuotaPeriod]int64{}, map[usage.QuotaPeriod]int{}
	for at := headerSize; at+slotSize <= n; at += slotSize {
		slot := text[at : at+slotSize]
		word := func(i int) int64 { return int64(binary.NativeEndian.Uint64(slot[8*i:])) } //nolint:gosec // a word
		if word(prefixWord) == 0 {
			continue
		}
		t, ok := termOf(word(prefixWord), word(termWord))
		if !ok || word(checkWord) != checksum(word(prefixWord), word(termWord)) || word(spentWord) < 0 {
			e.Damaged++
			continue
		}
		spent[t], count[t] = word(spentWord), count[t]+1
	}
	for t, n := range spent {
		if count[t] > 1 {
			e.Damaged += count[t]
			continue
		}
		e.Spent = append(e.Spent, usage.Ended{QuotaPeriod: t, Process: e.Run, Spent: n})
	}
	return nil
}

// Close unlocks the file.
func (e *Ended) Close() error { return e.file.Close() }

// Discard deletes the file.
func (e *Ended) Discard() error { return errors.Join(os.Remove(e.file.Name()), e.file.Close()) }
