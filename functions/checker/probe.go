package checker

import (
	"net/http"

	"github.com/sluicegate/sluice/shared/gateproof"
)

// prove answers a nonce, as wiring sends one when it asks whether a gate is in place, on a
// 401 (see package gateproof). Anybody may send one and gets nothing for it but one HMAC;
// without one, which is everybody else's request, this is a look into the header.
func (c *Checker) prove(out, in http.Header, address string) {
	nonces := in[gateproof.NonceHeader]
	if len(nonces) != 1 || !gateproof.ValidNonce(nonces[0]) || c.proofKey == nil {
		return
	}
	key, err := c.proofKey()
	if err != nil {
		c.log.Error("read the key of proofs failed", "error", err)
		return
	}
	out[gateproof.ProofHeader] = []string{key.Prove(nonces[0], address)}
}
