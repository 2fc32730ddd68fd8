// Command target is the server for benchmarks: a checker with a store in memory, or a handler
// that does nothing. With TLS, an ingress can use the handler for forward authentication.
//
//	ROLE=bare|checker KEYS=1000000 STORE= TLS=false PORT=… target
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/functions/checker"
	"github.com/sluicegate/sluice/shared/denial"
	"github.com/sluicegate/sluice/shared/funcmain"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/tests/bench/load"
)

type config struct {
	Role  string `env:"ROLE, required"` // bare or checker
	Keys  int    `env:"KEYS, default=0"`
	Store string `env:"STORE"`              // Firestore project instead of memory
	TLS   bool   `env:"TLS, default=false"` // self-signed
}

func main() { funcmain.Serve("target", build) }

func build(ctx context.Context, cfg config, log *slog.Logger) (*funcmain.Function, error) {
	if cfg.Role == "bare" {
		return bare(cfg)
	}
	m := newMemory(load.Keys(cfg.Keys))
	if cfg.Store == "" {
		return gate(m, m, log)
	}
	st, err := store.Open(ctx, cfg.Store)
	if err != nil {
		return nil, err
	}
	return gate(store.NewFeed(cfg.Store), st, log)
}

func gate(feed checker.Feed, st checker.Store, log *slog.Logger) (*funcmain.Function, error) {
	c, err := checker.New(checker.Config{
		Replica: "bench", MaxStaleness: checker.Ceiling, CanaryInterval: 15 * time.Second, FlushInterval: 2 * time.Second, MaxUnshared: 5 * time.Second,
	}, feed, st, log)
	if err != nil {
		return nil, err
	}
	return &funcmain.Function{Handler: c, MaxHeader: denial.MaxHeader, Background: c.Run}, nil
}

func bare(cfg config) (*funcmain.Function, error) {
	f := &funcmain.Function{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
		MaxHeader: denial.MaxHeader,
	}
	if !cfg.TLS {
		return f, nil
	}
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	f.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{cert}}
	return f, nil
}

func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate a key: %w", err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("create a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
