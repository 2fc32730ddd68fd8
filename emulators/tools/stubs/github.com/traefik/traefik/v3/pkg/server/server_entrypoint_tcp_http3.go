package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/traefik/traefik/v3/pkg/config/static"
	tcprouter "github.com/traefik/traefik/v3/pkg/server/router/tcp"
)

type http3server struct{ *http.Server }

func newHTTP3Server(_ context.Context, _ string, config *static.EntryPoint, _ *httpServer) (*http3server, error) {
	if config.HTTP3 != nil {
		return nil, errors.New("HTTP/3: left out of this build")
	}
	return nil, nil
}

func (*http3server) Start() error { return nil }

func (*http3server) Switch(*tcprouter.Router) {}
