package wiring

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/functions/wiring/internal/ca"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	certEntry   = "tls.crt"
	keyEntry    = "tls.key"
	caEntry     = "ca.crt" // all trusted CAs, the oldest first
	caKeysEntry = "ca.key" // their keys in the same order; only in the CA's own Secret
)

const (
	certifyAttempts = 4 // after conflicts with other processes
	certifyRetry    = time.Second
)

// Background issues the certificate that the checkers wait for. It retries until it succeeds, and
// returns when ctx ends.
func (s *Service) Background(ctx context.Context) error {
	tick := time.NewTicker(certifyRetry)
	defer tick.Stop()
	for {
		_, err := s.certify(ctx)
		if err == nil {
			<-ctx.Done()
			return nil
		}
		s.log.WarnContext(ctx, "issue checker certificate failed", "error", err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// certify issues the checker's certificate if necessary. It returns the CA certificates as PEM.
func (s *Service) certify(ctx context.Context) ([]byte, error) {
	ca, err := s.tryCertify(ctx)
	for n := 1; n < certifyAttempts && problem.Is(err, problem.Conflict); n++ {
		ca, err = s.tryCertify(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("issue checker certificate: %w", err)
	}
	s.ca.Store(&ca)
	return ca, nil
}

func (s *Service) tryCertify(ctx context.Context) ([]byte, error) {
	served, err := s.secret(ctx, s.cfg.CheckerSecret, cluster.TLSSecret)
	if err != nil {
		return nil, err
	}
	if err := s.ingress.proofKeys.learn(served.Data[keyEntry]); err != nil {
		return nil, err
	}
	if served.Exists() && !served.Managed {
		if len(served.Data[caEntry]) == 0 {
			return nil, fmt.Errorf("secret %s without Sluice's label has no entry %s", s.cfg.CheckerSecret, caEntry)
		}
		s.gauges.serves(served.Data[certEntry])
		return served.Data[caEntry], nil
	}
	trusted, ca, err := s.authorities(ctx)
	if err != nil {
		return nil, err
	}
	now := s.now()
	good := trusted.Good(served.Data[certEntry], served.Data[keyEntry], s.checkerHost, now)
	if good && bytes.Equal(served.Data[caEntry], ca) {
		s.gauges.serves(served.Data[certEntry])
		return ca, nil
	}
	cert, key := served.Data[certEntry], served.Data[keyEntry]
	if !good {
		if cert, key, err = trusted.Issue(s.checkerHost, now); err != nil {
			return nil, err
		}
	}
	served.Data = map[string][]byte{certEntry: cert, keyEntry: key, caEntry: ca}
	if _, err := s.cluster.WriteSecret(ctx, served); err != nil {
		return nil, err
	}
	if err := s.ingress.proofKeys.learn(key); err != nil {
		return nil, err
	}
	s.gauges.serves(cert)
	s.log.InfoContext(ctx, "checker certificate written", "secret", served.Name, "host", s.checkerHost, "new_key", !good)
	return ca, nil
}

// authorities returns the CAs, and stores a new CA before it signs. It replaces an unreadable
// Secret; gates then deny all requests until the copies in the apps' namespaces are updated.
func (s *Service) authorities(ctx context.Context) (ca.Bundle, []byte, error) {
	kept, err := s.secret(ctx, s.cfg.CheckerSecret+"-ca", cluster.OpaqueSecret)
	if err != nil {
		return nil, nil, err
	}
	old, err := ca.Parse(kept.Data[caEntry], kept.Data[caKeysEntry])
	if err != nil {
		s.log.ErrorContext(ctx, "read CA failed, creating a new one", "secret", kept.Name, "error", err)
		old = nil
	}
	trusted, changed, err := old.Renew(s.now())
	if err != nil {
		return nil, nil, err
	}
	ca, keys, err := trusted.PEM()
	if err != nil || !changed {
		return trusted, ca, err
	}
	kept.Data = map[string][]byte{caEntry: ca, caKeysEntry: keys}
	if _, err := s.cluster.WriteSecret(ctx, kept); err != nil {
		return nil, nil, err
	}
	s.log.InfoContext(ctx, "checker CA written", "secret", kept.Name, "authorities", len(trusted))
	return trusted, ca, nil
}

func (s *Service) secret(ctx context.Context, name string, kind cluster.SecretType) (cluster.Secret, error) {
	found, err := s.cluster.Secret(ctx, s.cfg.SystemNamespace, name)
	if !problem.Is(err, problem.NotFound) {
		return found, err
	}
	if err := s.cluster.EnsureNamespace(ctx, s.cfg.SystemNamespace); err != nil {
		return cluster.Secret{}, err
	}
	return cluster.Secret{Namespace: s.cfg.SystemNamespace, Name: name, Type: kind}, nil
}
