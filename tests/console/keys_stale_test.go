package console

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicegate/sluice/shared/wire"
)

func TestRevokedMeanwhile(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, form, button string }{
		{"edit", "edit", "Save key"},
		{"disable", "disable", "Disable key"},
		{"revoke", "revoke", "Revoke key"},
		{"rotate", "rotate", "Rotate key"},
	}
	for _, w := range usual {
		s := newSite(t)
		plan := s.starter()
		v := browseAs(t, w, admin())
		for _, tt := range tests {
			t.Run(tt.name+" "+w.name, func(t *testing.T) {
				key := s.named(plan, "Checkout team")
				v.opens(s.page("api-keys", key.ID, tt.form))
				if tt.form == "edit" {
					v.types("Name", "Renamed")
				}
				s.Revoke(key)
				before := s.now(key.ID)
				v.clicks(tt.button).sees("No changes were made: this key is revoked")
				if tt.form == "edit" {
					v.shot("keys-stale")
				}
				if diff := cmp.Diff(before, s.now(key.ID), cmpopts.IgnoreFields(wire.KeyUsage{}, "AsOf")); diff != "" {
					t.Errorf("the key has changed (-before +after):\n%s", diff)
				}
				if fullKey.MatchString(v.source()) {
					t.Error("the page shows a full key")
				}
			})
		}
	}
}

func TestEnableOfRevoked(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	key := s.named(s.starter(), "Checkout team")
	s.Disable(key)
	v.opens(s.page("api-keys", key.ID))
	s.Revoke(key)
	v.clicks("Enable key").sees("No changes were made: this key is revoked")
	if got := s.now(key.ID).Status; got != "revoked" {
		t.Errorf("status: got %s, want revoked", got)
	}
}

func TestEditedMeanwhile(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	key := s.named(s.starter(), "Checkout team")
	rename := func(name string) {
		_, err := s.Client.UpdateKey(t.Context(), s.Project, key.ID, wire.UpdateKey{Name: wire.Some(name)})
		must(t, err)
	}

	v.opens(s.page("api-keys", key.ID, "edit"))
	v.types("Name", "Mine")
	rename("Theirs")
	v.clicks("Save key").sees("Another user changed this to “Theirs” in the meantime.")
	if got := s.now(key.ID).Name; got != "Theirs" {
		t.Errorf("name: got %q, want Theirs", got)
	}

	v.opens(s.page("api-keys", key.ID, "edit"))
	v.sets("Last valid day", time.Now().UTC().AddDate(1, 0, 0).Format(time.DateOnly))
	rename("Theirs again")
	v.clicks("Save key").sees("Key saved.")
	if k := s.now(key.ID); k.Name != "Theirs again" || k.ExpiresAt == nil {
		t.Errorf("got the key %+v", k)
	}
}

func TestRotatedMeanwhile(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	key := s.named(s.starter(), "Checkout team")
	v.opens(s.page("api-keys", key.ID, "rotate"))
	theirs := s.Rotate(key, time.Hour)
	v.clicks("Rotate key").sees("this key was rotated after the form was loaded")
	s.opensGate(theirs.Full, "hello", http.StatusOK)
	s.opensGate(key.Full, "hello", http.StatusOK)
}

func TestViewer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	key := s.named(s.starter(), "Checkout team")
	v := browseAs(t, desk, s.member("viewer"))
	for _, path := range []string{s.page("plans"), s.page("plans", "plan-starter"), s.page("api-keys"), s.page("api-keys", key.ID)} {
		v.opens(path)
		v.offersNone("Create plan", "Edit plan", "Delete plan", "Create API key", "Edit key", "Rotate key", "Disable key", "Revoke key")
	}
	v.shot("keys-viewer")
	for _, path := range []string{s.page("api-keys", key.ID, "revoke"), s.page("plans", "new"), s.page("api-keys", "new")} {
		v.opens(path).sees("Access denied")
	}
	if got := s.now(key.ID).Status; got != "active" {
		t.Errorf("status after the attempt of a viewer: got %s, want active", got)
	}
}
