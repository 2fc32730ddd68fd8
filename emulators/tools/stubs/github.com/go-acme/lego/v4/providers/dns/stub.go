// Package dns is a stub for the registry of DNS providers of the ACME client. It has no provider.
package dns

import (
	"fmt"

	"github.com/go-acme/lego/v4/challenge"
)

// NewDNSChallengeProviderByName returns an error for every name.
func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, fmt.Errorf("DNS provider %s: left out of this build", name)
}
