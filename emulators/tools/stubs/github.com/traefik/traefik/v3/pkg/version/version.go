// Package version is Traefik's package version without the check for a newer release.
package version

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/gorilla/mux"
)

// These are the variables of Traefik's package.
var (
	Version            = "dev"
	Codename           = "cheddar"
	BuildDate          = "unknown"
	StartDate          = time.Now()
	DisableDashboardAd = false
)

// Handler serves the version.
type Handler struct{}

// Append adds the route of the version.
func (Handler) Append(router *mux.Router) {
	router.Methods(http.MethodGet).Path("/api/version").HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		_ = json.NewEncoder(w).Encode(map[string]any{"Version": Version, "Codename": Codename, "startDate": StartDate})
	})
}

// CheckNewVersion does nothing.
func CheckNewVersion() {}
