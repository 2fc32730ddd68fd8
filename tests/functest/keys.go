package functest

import (
	"testing"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/tests/check"
)

// NewKey returns an active key of plan-a in shop-prod. change may be nil.
func NewKey(tb testing.TB, change func(*apikey.Key)) (apikey.Key, string) {
	tb.Helper()
	prefix, err := apikey.NewPrefix(apikey.Random())
	if err != nil {
		tb.Fatal(err)
	}
	full, err := apikey.NewSecret(apikey.Random(), prefix) // not check.OK: benchmarks create a million keys
	if err != nil {
		tb.Fatal(err)
	}
	k := apikey.Key{Prefix: prefix, Namespace: "shop-prod", Plan: "plan-a", Status: apikey.Active, Secret: apikey.HashOf([]byte(full))}
	if change != nil {
		change(&k)
	}
	return k, string(full)
}

// Keyring returns a new keyring for sessions.
func Keyring(tb testing.TB) *identity.Keyring {
	tb.Helper()
	dir := tb.TempDir()
	check.OK(tb, identity.WriteKeyPair(dir, "test"))
	keys, err := identity.OpenKeyring(dir)
	check.OK(tb, err)
	return keys
}
