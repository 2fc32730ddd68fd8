package identity

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

const (
	saltLength = 16 // bytes
	sumLength  = 32 // bytes
	minStored  = 8  // bytes of a stored salt or sum
	maxStored  = 64 // bytes of a stored salt or sum
)

type cost struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
}

// current is the cost of new hashes, as recommended by OWASP. most is the maximum cost of stored
// hashes.
//
//nolint:gochecknoglobals // constants; Go has no constant composite values
var (
	current = cost{memory: 19 << 10, passes: 2, threads: 1}
	most    = cost{memory: 128 << 10, passes: 10, threads: 8}
)

func (c cost) valid() bool {
	return c.threads >= 1 && c.threads <= most.threads &&
		c.passes >= 1 && c.passes <= most.passes &&
		c.memory >= 8*uint32(c.threads) && c.memory <= most.memory
}

// phc is a hash in the PHC string format, "$argon2id$v=19$m=19456,t=2,p=1$<salt>$<sum>", base64
// without padding.
type phc struct {
	cost cost
	salt []byte
	sum  []byte
}

var errNoPHC = errors.New("the stored password hash is not a valid PHC string of argon2id")

func (p phc) String() string {
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", p.cost.memory, p.cost.passes, p.cost.threads,
		base64.RawStdEncoding.EncodeToString(p.salt), base64.RawStdEncoding.EncodeToString(p.sum))
}

// parsePHC accepts only the format that [phc.String] writes.
func parsePHC(s string) (phc, error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 {
		return phc{}, errNoPHC
	}
	var p phc
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.cost.memory, &p.cost.passes, &p.cost.threads); err != nil {
		return phc{}, errNoPHC
	}
	var err1, err2 error
	p.salt, err1 = base64.RawStdEncoding.DecodeString(parts[4])
	p.sum, err2 = base64.RawStdEncoding.DecodeString(parts[5])
	if err1 != nil || err2 != nil || !storable(p.salt) || !storable(p.sum) || !p.cost.valid() || p.String() != s {
		return phc{}, errNoPHC
	}
	return p, nil
}

func storable(b []byte) bool { return len(b) >= minStored && len(b) <= maxStored }
