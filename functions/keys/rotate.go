package keys

import (
	"fmt"
	"net/http"

	"github.com/sluicegate/sluice/shared/apikey"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/wire"
)

// revokeKey revokes a key for good; again is no error. The body is empty or {}.
func (s *Service) revokeKey(w http.ResponseWriter, r *http.Request) error {
	project, caller, err := s.project(r, app.Developer)
	if err != nil {
		return err
	}
	if _, err := httpapi.DecodeOptional[struct{}](w, r); err != nil {
		return err
	}
	now := s.moment()
	k, err := s.change(r, project, apikey.Request{}, func(k apikey.Key) (apikey.Key, error) { return k.Revoke(now), nil })
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "key revoked", "key_id", string(k.ID()), "actor", caller.Username)
	return httpapi.JSON(w, http.StatusOK, s.changed(r.Context(), k, now))
}

// rotateKey gives a key a new secret and answers its full key, this once; the
// old one stays valid for the grace. Problems: not_found, invalid_grace,
// key_revoked, key_expired, already_issued.
func (s *Service) rotateKey(w http.ResponseWriter, r *http.Request) error {
	project, caller, err := s.project(r, app.Developer)
	if err != nil {
		return err
	}
	in, err := httpapi.DecodeOptional[wire.RotateKey](w, r)
	if err != nil {
		return err
	}
	grace, err := parseGrace(in.Grace)
	if err != nil {
		return err
	}
	request, err := s.request(r, caller, project)
	if err != nil {
		return err
	}
	id, err := keyID(r)
	if err != nil {
		return err
	}
	prefix, _ := id.Prefix() // checked by keyID
	full, err := apikey.NewSecret(s.random, prefix)
	if err != nil {
		return fmt.Errorf("draw secret: %w", err)
	}
	now := s.moment()
	hash := apikey.HashOf([]byte(full))
	k, err := s.change(r, project, request, func(k apikey.Key) (apikey.Key, error) { return k.Rotate(hash, grace, now) })
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "key rotated", "key_id", string(k.ID()), "grace", grace, "actor", caller.Username)
	return httpapi.JSON(w, http.StatusOK, wire.IssuedKey{Key: s.changed(r.Context(), k, now), FullKey: string(full)})
}
