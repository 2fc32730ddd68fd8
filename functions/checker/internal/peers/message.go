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

// Path is the path of peer messages.
const Path = "/counts"

// MaxMessage is the maximum size of a message in bytes.
const MaxMessage = 256 << 10

const (
	version   = 2
	maxCounts = 8 << 10 // per message, of at most 31 bytes each
	maxCount  = 1 << 50 // a few of these can be added without overflow
)

type message struct {
	run    string
	seq    uint64
	source usage.CounterSource
	day    usage.Day
	counts []keyCount
}

type keyCount struct {
	prefix     apikey.Prefix
	shard      int
	allowed    uint64
	unrefilled uint64 // part of allowed that the bucket may not have refilled
	short      bool   // too little of the hard quota
}

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
		b = append(b, byte(w.shard), flag(w.short)) //nolint:gosec // below usage.Shards
		b = binary.AppendUvarint(b, w.allowed)
		b = binary.AppendUvarint(b, w.unrefilled)
	}
	return b
}

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

var errInvalidMessage = errors.New("invalid peer message")

func decode(b []byte) (l message, err error) {
	r := reader{b: b}
	if r.byte() != version {
		return message{}, fmt.Errorf("%w: unsupported version", errInvalidMessage)
	}
	l.run = string(r.take(int(r.byte())))
	l.source = usage.CounterSource(r.take(int(r.byte())))
	l.seq = r.uvarint()
	day, n := binary.Varint(r.b)
	r.skip(n)
	if day != int64(int32(day)) { //nolint:gosec // this is the check
		r.bad = true
	}
	l.day = usage.Day(day) //nolint:gosec // checked above
	for len(r.b) > 0 && !r.bad {
		w := keyCount{prefix: apikey.Prefix(r.take(apikey.PrefixLength)), shard: int(r.byte()), short: r.flag(), allowed: r.uvarint(), unrefilled: r.uvarint()}
		if w.shard >= usage.Shards || w.allowed > maxCount || w.unrefilled > w.allowed {
			r.bad = true
		}
		l.counts = append(l.counts, w)
	}
	// A source's name begins with its process, so no process can send another's counts.
	if r.bad || len(l.counts) > maxCounts || l.run == "" || !strings.HasPrefix(string(l.source), l.run+"-") {
		return message{}, errInvalidMessage
	}
	return l, nil
}

// reader sets bad if there are too few bytes.
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

// Messages returns the updates for a peer, and the version to pass to [Exchange.Acknowledged]
// when they have arrived.
func (x *Exchange) Messages(run string) (messages [][]byte, upTo uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.peers[run]
	if p == nil || len(x.accounts) == 0 && x.tick%uint64(heartbeat/Interval) != 0 {
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
		short := a.shortVersion > p.received
		if a.totalVersion <= p.received || a.total == 0 && !short || a.prefix == "" {
			continue
		}
		l.counts = append(l.counts, keyCount{prefix: a.prefix, shard: a.shard, allowed: a.total, unrefilled: a.total - a.refilled, short: short})
		if len(l.counts) == maxCounts {
			write()
		}
	}
	if len(l.counts) > 0 || len(messages) == 0 {
		write()
	}
	return messages, x.version
}

// Acknowledged records that updates have arrived at a peer.
func (x *Exchange) Acknowledged(run string, upTo uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.peers[run]; p != nil {
		p.received = max(p.received, upTo)
	}
}

// Errors of [Exchange.Receive].
var (
	ErrUnknownPeer = errors.New("unknown peer")
	ErrStale       = errors.New("message is older than the last one")
)

// Receive applies a peer's message from an address. It returns [ErrUnknownPeer], [ErrStale] or
// another error if the message is not valid.
func (x *Exchange) Receive(now time.Time, from string, b []byte) error {
	l, err := decode(b)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.knownPeer(l.run, from)
	switch {
	case p == nil:
		return ErrUnknownPeer
	case l.seq <= p.seq:
		return ErrStale
	}
	at := x.since(now)
	debt := p.messageAt != 0 && at-p.messageAt <= int64(PeerTimeout)
	p.seq, p.messageAt = l.seq, max(at, 1)
	for _, w := range l.counts {
		x.charge(p, l.source, w, at, debt)
		x.cfg.Meter.ApplyPeerCount(l.day, l.source, w.shard, w.prefix, w.allowed)
		if w.short {
			x.notePeerShortage(w.prefix, now)
		}
	}
	return nil
}

func (x *Exchange) notePeerShortage(prefix apikey.Prefix, now time.Time) {
	if slot, _, ok := x.cfg.Find(prefix); ok {
		x.cfg.Leases.NotePeerShortage(slot, now)
	}
}
