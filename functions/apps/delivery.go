package apps

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sluicegate/sluice/shared/api"
	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/httpapi"
	"github.com/sluicegate/sluice/shared/outbound"
	"github.com/sluicegate/sluice/shared/problem"
	"github.com/sluicegate/sluice/shared/reqctx"
	"github.com/sluicegate/sluice/shared/span"
	"github.com/sluicegate/sluice/shared/store"
	"github.com/sluicegate/sluice/shared/wire"
)

const (
	// pingTimeout limits a test. maxPong limits the part of the response that is read, in bytes.
	pingTimeout = 5 * time.Second
	maxPong     = 4 << 10

	// maxQuoted limits a text that a message quotes from the response, in bytes.
	maxQuoted = 200
)

// pingBody has an invalid commit and no ref. The signature does not cover the event's name, so a
// copy of the ping could be sent as another event; the webhook then rejects this body.
const pingBody = `{"zen":"This is a test.","commit":false}`

func (s *Service) listDeliveries(ctx context.Context, in httpapi.Scope, page api.Page) (wire.List[wire.WebhookDelivery], error) {
	receipts, next, err := s.store.Receipts(ctx, in.App.Ref(), in.App.CreatedAt, store.Page(page))
	if err != nil {
		return wire.List[wire.WebhookDelivery]{}, err
	}
	list := wire.List[wire.WebhookDelivery]{Items: make([]wire.WebhookDelivery, len(receipts)), NextPageToken: next}
	for i, r := range receipts {
		list.Items[i] = wire.WebhookDelivery{
			ID: r.ID, At: r.At, LastAt: r.Last, Count: r.Count, Result: string(r.Result), Code: wire.Text(r.Code), Reason: wire.Text(r.Reason),
			Event: wire.Text(r.Event), Revision: wire.Ordinal(r.Revision), Build: wire.Ordinal(r.Build),
			Commit: wire.Text(r.Commit), RequestID: wire.Text(r.RequestID), Delivery: wire.Text(r.Delivery),
		}
	}
	return list, nil
}

func (s *Service) testWebhook(ctx context.Context, in httpapi.Scope, _ api.Empty) (wire.WebhookTest, error) {
	token, err := s.cluster.WebhookToken(ctx, in.App.Ref())
	if problem.Is(err, problem.NotFound) {
		return wire.WebhookTest{}, problem.New(problem.Conflict, "The webhook is disabled. Enable it before you test it.")
	}
	if err != nil {
		return wire.WebhookTest{}, err
	}
	began := s.now()
	out := s.ping(ctx, in.App.Ref(), token)
	out.RequestID, out.DurationMS = reqctx.ID(ctx), s.now().Sub(began).Milliseconds()
	return out, nil
}

func (s *Service) ping(ctx context.Context, ref app.Ref, token hook.Token) wire.WebhookTest {
	none := wire.WebhookTest{Result: wire.HookTestUnreachable}
	if s.cfg.BaseURL == "" {
		none.Message = "No ping was sent, because this installation does not know its public address. An operator must set BASE_URL."
		return none
	}
	status, answer, err := s.sendPing(ctx, ref, token)
	if err != nil {
		s.log.WarnContext(ctx, "test webhook failed", "app", ref.String(), "error", err)
		none.Message = "The webhook's address cannot be reached from Sluice itself: " + failureReason(err) + ". Pipelines outside may still reach it."
		return none
	}
	return classifyResponse(status, answer)
}

func (s *Service) sendPing(ctx context.Context, ref app.Ref, token hook.Token) (status int, answer []byte, err error) {
	roots, err := outbound.Authorities(s.cfg.IngressCAFile)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	address := strings.TrimRight(s.cfg.BaseURL, "/") + api.CallWebhook.URL(url.PathEscape, ref.Namespace, ref.Name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader([]byte(pingBody)))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sluice-apps")
	req.Header.Set(hook.EventHeader, string(hook.Ping))
	req.Header.Set(hook.SignatureHeader, hook.Sign(token, []byte(pingBody)))
	req.Header.Set(reqctx.Header, reqctx.ID(ctx))
	if of, _ := reqctx.FromContext(ctx); of.Parent != "" {
		req.Header.Set(reqctx.ParentHeader, of.Parent)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
	}
	defer transport.CloseIdleConnections()
	resp, err := span.Transport(transport, "webhook", true).RoundTrip(req) // follows no redirects
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxPong))
	return resp.StatusCode, answer, err
}

func classifyResponse(status int, answer []byte) wire.WebhookTest {
	out := wire.WebhookTest{Result: wire.HookTestRefused, Status: wire.Ordinal(status)}
	var said struct{ Status, Code, Message string }
	if err := json.Unmarshal(answer, &said); err != nil {
		said.Status, said.Code = "", ""
	}
	switch {
	case status == http.StatusOK && said.Status == "pong":
		out.Result, out.Message = wire.HookTestPong, "The webhook responded to the ping."
	case status/100 == 3:
		out.Message = fmt.Sprintf("The webhook's address returned a redirect (%d), which senders of webhooks do not follow. Check BASE_URL.", status)
	case said.Code != "":
		out.Message = fmt.Sprintf("The webhook rejected the ping: %d %s. %s", status, app.SanitizeASCII(said.Code, maxQuoted), app.SanitizeASCII(said.Message, maxQuoted))
	default:
		out.Message = fmt.Sprintf("The response (%d) is not from the webhook. Check that the proxy in front of Sluice routes to it.", status)
	}
	return out
}

func failureReason(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return "its name was not found"
	case errors.As(err, &certificate):
		return "its certificate is not trusted"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Sprintf("there was no response within %s", pingTimeout)
	}
	return "the connection failed"
}
