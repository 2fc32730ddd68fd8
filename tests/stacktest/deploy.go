package stacktest

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
	"github.com/sluicegate/sluice/tests/check"
)

// Webhook enables an app's webhook.
func (s *Site) Webhook(app string) (url, token string) {
	s.T.Helper()
	w, err := s.Client.EnableWebhook(s.T.Context(), s.Project, s.Env, app)
	s.must(err)
	return w.URL, string(w.Token)
}

// Deliveries waits for n deliveries, which are listed shortly after the response, and returns
// them, newest first.
func (s *Site) Deliveries(app string, n int) []wire.WebhookDelivery {
	s.T.Helper()
	var list wire.List[wire.WebhookDelivery]
	s.Until(fmt.Sprintf("list %d deliveries", n), func() bool {
		var err error
		list, err = s.Client.DeliveriesPage(s.T.Context(), s.Project, s.Env, app, client.Page{})
		s.must(err)
		return len(list.Items) >= n
	})
	return list.Items
}

// Post sends a webhook call with pairs of header names and values.
func (s *Site) Post(url string, body []byte, header ...string) Answer {
	s.T.Helper()
	return send(s.T, http.MethodPost, url, body, header...)
}

// Get reads an address of the stack, with pairs of header names and values.
func Get(t testing.TB, url string, header ...string) Answer {
	t.Helper()
	return send(t, http.MethodGet, url, nil, header...)
}

func send(t testing.TB, method, url string, body []byte, header ...string) Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	check.OK(t, err)
	AddHeaders(req, header...)
	if method == http.MethodPost && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := Do(http.DefaultClient, req)
	check.OK(t, err)
	return a
}

// History returns an app's deployments, newest first.
func (s *Site) History(app string) []wire.Deployment {
	s.T.Helper()
	all, err := client.Collect(s.Client.Deployments(s.T.Context(), s.Project, s.Env, app))
	s.must(err)
	return all
}

// Runs waits until the app runs an image.
func (s *Site) Runs(app, image string) Echo {
	s.T.Helper()
	var e Echo
	s.Until("run "+image, func() bool {
		a := s.Call(app).Send()
		if a.Status != http.StatusOK {
			return false
		}
		e = s.Echo(a)
		return e.Image == image
	})
	return e
}

// Settled waits until a revision has a status.
func (s *Site) Settled(app string, revision int64, status string) wire.Deployment {
	s.T.Helper()
	var found wire.Deployment
	s.Until("be "+status, func() bool {
		for _, d := range s.History(app) {
			if d.Revision == revision {
				found = d
			}
		}
		return found.Status == status
	})
	return found
}

// Until is [Until] for the site's test.
func (s *Site) Until(what string, done func() bool) {
	s.T.Helper()
	Until(s.T, what, done)
}

// Until waits until done returns true, for at most a minute.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		if done() {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
