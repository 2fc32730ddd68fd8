package stack

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sluicegate/sluice/emulators/internal/child"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	demoProject     = "shop"
	demoEnvironment = "prod"
	demoApp         = "hello"
	demoImage       = "registry.example/hello:v1"
	demoPlan        = "starter"
	demoRate        = 10
	demoBurst       = 20

	routeLimit = 30 * time.Second
	seedLimit  = 60 * time.Second
	pollEvery  = 100 * time.Millisecond
)

// seed waits until the API responds through the ingress, and creates the demo if requested.
func (s *Stack) seed(ctx context.Context) error {
	api := client.New(s.Info().BaseURL, client.WithTransport(s.toIngress()))
	if err := s.progress.Step("routes", func() error { return waitRoutes(ctx, api) }); err != nil {
		return err
	}
	if !s.o.Seed {
		return nil
	}
	return s.progress.Step("demo", func() error {
		ctx, cancel := context.WithTimeout(ctx, seedLimit)
		defer cancel()
		demo, err := s.makeDemo(ctx, api)
		if err != nil {
			return fmt.Errorf("create the demo: %w", err)
		}
		s.mu.Lock()
		s.info.Demo = &demo
		s.mu.Unlock()
		return s.waitServed(ctx, demo)
	})
}

// toIngress returns a transport that connects to the ingress for every host, so that names below
// localhost need no DNS.
func (s *Stack) toIngress() *http.Transport {
	var d net.Dialer
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return d.DialContext(ctx, network, s.o.local(ingressPort))
		},
		DisableKeepAlives: true,
	}
}

func waitRoutes(ctx context.Context, api *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, routeLimit)
	defer cancel()
	return child.Until(ctx, pollEvery, func() error {
		_, err := api.WhoAmI(ctx)
		if client.HasCode(err, "unauthenticated") {
			return nil
		}
		return fmt.Errorf("the management API does not respond through the ingress: %w", err)
	})
}

func (s *Stack) makeDemo(ctx context.Context, api *client.Client) (Demo, error) {
	session, err := api.SignIn(ctx, adminUsername, s.password)
	if err != nil {
		return Demo{}, err
	}
	api = api.WithToken(session.Token)
	if _, err := api.CreateProject(ctx, demoProject); err != nil {
		return Demo{}, err
	}
	if _, err := api.CreateEnvironment(ctx, demoProject, demoEnvironment); err != nil {
		return Demo{}, err
	}
	name, image := demoApp, demoImage
	if _, err := api.CreateApp(ctx, demoProject, demoEnvironment, wire.CreateApp{Name: &name, Image: &image}); err != nil {
		return Demo{}, err
	}
	planName, rate, burst := demoPlan, float64(demoRate), int64(demoBurst)
	plan, err := api.CreatePlan(ctx, demoProject, demoEnvironment, wire.CreatePlan{Name: &planName, Rate: &rate, Burst: &burst})
	if err != nil {
		return Demo{}, err
	}
	key, full, err := api.CreateKey(ctx, demoProject, demoEnvironment, wire.CreateKey{Plan: &plan.ID, Name: "Demo"})
	if err != nil {
		return Demo{}, err
	}
	if _, err := api.RequireAPIKey(ctx, demoProject, demoEnvironment, demoApp, true); err != nil {
		return Demo{}, err
	}
	app, err := api.WaitGate(ctx, demoProject, demoEnvironment, demoApp, "engaged")
	if err != nil {
		return Demo{}, err
	}
	return Demo{AppURL: app.URL, Key: string(full), KeyID: key.ID}, nil
}

func (s *Stack) waitServed(ctx context.Context, demo Demo) error {
	gate, err := s.toGate()
	if err != nil {
		return err
	}
	for _, checker := range s.Info().Checkers {
		if err := waitOpen(ctx, gate, checker+"/check/"+demoProject+"-"+demoEnvironment+"/"+demoApp, demo.Key); err != nil {
			return err
		}
	}
	return waitOpen(ctx, s.toIngress(), demo.AppURL, demo.Key)
}

// waitOpen waits until a request with the key returns 200. Checkers need X-Forwarded-Method,
// which the ingress sets; apps ignore it.
func waitOpen(ctx context.Context, way *http.Transport, url, key string) error {
	visitor := &http.Client{Transport: way}
	return child.Until(ctx, pollEvery, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("call with the demo's key: %w", err)
		}
		req.Header.Set("X-API-Key", key)
		req.Header.Set("X-Forwarded-Method", http.MethodGet)
		resp, err := visitor.Do(req)
		if err != nil {
			return fmt.Errorf("call with the demo's key: %w", err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("call with the demo's key: %s", resp.Status)
		}
		return nil
	})
}
