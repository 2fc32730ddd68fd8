package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/usage"
)

// Path is where a replica listens to its peers.
const Path = "/counts"

// MaxMessage bounds a message, in bytes.
const MaxMessage = 256 << 10

const (
	version   = 2
	maxCounts = 8 << 10 // in one message: at most 31 bytes each
	maxCount  = 1 << 50 // far beyond any day's total; sums of a few of them are exact
)

// message is what a replica says at one time.
type message struct {
	run    string
	seq    uint64
	source usage.Source
	day    usage.Day
	counts []keyCount
}

// count is what it says of one key.
type keyCount struct {
	prefix  apikey.Prefix
	shard   int
	allowed uint64 // on that day, by that source
	unpaid  uint64 // of these, how many its bucket may still miss
	wants   bool   // it holds too little of the hard quota
}

// encode gives a message as bytes: a version, whose it is, then the keys, each with its
// prefix's 8 bytes, its shard, whether more is wanted, and two varints.
func (l message) encode() []byte {
	b := make([]byte, 0, 96+16*len(l.counts))
	b = append(b, version)
	for _, name := range [...]string{l.run, string(l.source)} {
		b = append(b, byte(len(name))) //nolint:gosec // random text and a number
		b = append(b, name...)
	}
	b = binary.AppendUvarint(b, l.seq)
	b = binary.AppendVarint(b, int64(l.day))
	for _, w := range l.counts {
		b = append(b, w.prefix...)
		b = append(b, byte(w.shard), flag(w.wants)) //nolint:gosec // below usage.Shards
		b = binary.AppendUvarint(b, w.allowed)
		b = binary.AppendUvarint(b, w.unpaid)
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

var errMessage = errors.New("no message of a peer's")

// decode reads a message to its end.
func decode(b []byte) (l message, err error) {
	r := reader{b: b}
	if r.byte() != version {
		return message{}, fmt.Errorf("%w: another version", errMessage)
	}
	l.run = string(r.take(int(r.byte())))
	l.source = usage.Source(r.take(int(r.byte())))
	l.seq = r.uvarint()
	day, n := binary.Varint(r.b)
	r.skip(n)
	if day != int64(int32(day)) { //nolint:gosec // this is what is asked
		r.bad = true
	}
	l.day = usage.Day(day) //nolint:gosec // checked above
	for len(r.b) > 0 && !r.bad {
		w := keyCount{prefix: apikey.Prefix(r.take(apikey.PrefixLength)), shard: int(r.byte()), wants: r.flag(), allowed: r.uvarint(), unpaid: r.uvarint()}
		if w.shard >= usage.Shards || w.allowed > maxCount || w.unpaid > w.allowed {
			r.bad = true
		}
		l.counts = append(l.counts, w)
	}
	// A source is named after its process: nobody speaks for another's.
	if r.bad || len(l.counts) > maxCounts || l.run == "" || !strings.HasPrefix(string(l.source), l.run+"-") {
		return message{}, errMessage
	}
	return l, nil
}

// reader takes bytes off the front, and remembers when there were too few.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad = true
		n = 0
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.bad = true
		return
	}
	r.take(n)
}

func (r *reader) byte() byte {
	if b := r.take(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) flag() bool {
	b := r.byte()
	if b > 1 {
		r.bad = true
	}
	return b == 1
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.skip(n)
	return v
}

// Messages gives what a peer does not know yet, and the version that it knows once it has
// taken them; none where there is nothing to say now.
func (x *Exchange) Messages(run string) (messages [][]byte, upTo uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.peers[run]
	if p == nil || len(x.accounts) == 0 && x.tick%uint64(idle/Interval) != 0 {
		return nil, x.version
	}
	l := message{run: x.cfg.Run, source: x.source.Source(), day: x.source.Day()}
	write := func() {
		p.sent++
		l.seq = p.sent
		messages = append(messages, l.encode())
		l.counts = l.counts[:0]
	}
	for _, a := range x.accounts {
		wants := a.wants > p.told
		if a.changed <= p.told || a.total == 0 && !wants || a.prefix == "" {
			continue
		}
		l.counts = append(l.counts, keyCount{prefix: a.prefix, shard: a.shard, allowed: a.total, unpaid: a.total - a.paid, wants: wants})
		if len(l.counts) == maxCounts {
			write()
		}
	}
	if len(l.counts) > 0 || len(messages) == 0 {
		write()
	}
	return messages, x.version
}

// Acknowledged notes that a peer has taken its messages.
func (x *Exchange) Acknowledged(run string, upTo uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.peers[run]; p != nil {
		p.told = max(p.told, upTo)
	}
}

// Why a message is not taken.
var (
	ErrUnknownPeer = errors.New("this is no peer's message")
	ErrStale       = errors.New("this message is older than the last one")
)

// Receive takes in a peer's message that came from an address. Errors: it is no message,
// [ErrUnknownPeer], [ErrStale]; then nothing has changed.
func (x *Exchange) Receive(now time.Time, from string, b []byte) error {
	l, err := decode(b)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.known(l.run, from)
	switch {
	case p == nil:
		return ErrUnknownPeer
	case l.seq <= p.seq:
		return ErrStale
	}
	at := x.since(now)
	debt := p.heard != 0 && at-p.heard <= int64(Silence)
	p.seq, p.heard = l.seq, max(at, 1)
	for _, w := range l.counts {
		x.charge(p, l.source, w, at, debt)
		x.cfg.Meter.Told(l.day, l.source, w.shard, w.prefix, w.allowed)
		if w.wants {
			x.wanted(w.prefix, now)
		}
	}
	return nil
}

// wanted notes that a peer holds too little of a key's hard quota.
func (x *Exchange) wanted(prefix apikey.Prefix, now time.Time) {
	if slot, _, ok := x.cfg.Find(prefix); ok {
		x.cfg.Leases.Wanted(slot, now)
	}
}
