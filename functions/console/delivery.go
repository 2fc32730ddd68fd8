package console

import (
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/hook"
	"github.com/sluicegate/sluice/shared/wire"
)

type deliveriesPage struct {
	view.List[deliveryRow]

	App     wire.App
	Enabled bool
	Form    view.Form
	Test    *wire.WebhookTest
}

type deliveryRow struct {
	wire.WebhookDelivery

	State  badge
	Did    string // "Created", "12 calls without a valid token since"
	Since  bool   // the time of the first call follows Did
	Link   string // the created resource, "revision 4", or ""
	Path   string
	Sender string // "push event", "pipeline"; "" for several calls
}

func listDeliveries(r *request) error { return showDeliveries(r, view.Form{}, nil) }

func toDeliveries(r *request) error { return r.redirect(r.inApp("deliveries")) }

func showDeliveries(r *request, f view.Form, test *wire.WebhookTest) error {
	p := deliveriesPage{Form: f, Test: test}
	var webhook client.Webhook
	var found wire.List[wire.WebhookDelivery]
	var g errgroup.Group
	g.Go(read(&p.App, r.readApp))
	g.Go(read(&webhook, r.readWebhook))
	g.Go(read(&found, func() (wire.List[wire.WebhookDelivery], error) {
		return r.api.DeliveriesPage(r.Context(), r.project, r.environment, r.app(), r.asked())
	}))
	if err := g.Wait(); err != nil {
		return err
	}
	p.Enabled, p.Paging = webhook.Enabled, r.paging(r.URL.EscapedPath(), found.NextPageToken, len(found.Items), nil)
	for _, d := range found.Items {
		p.Items = append(p.Items, r.deliveryRow(d))
	}
	return r.show("deliveries", page{Status: f.Status(), Title: p.App.Name + " webhook deliveries", Tab: tabApps}, p)
}

func testWebhook(r *request) error {
	test, err := r.api.TestWebhook(r.Context(), r.project, r.environment, r.app())
	if err != nil {
		return r.again(err, func(r *request, f view.Form) error { return showDeliveries(r, f, nil) })
	}
	return showDeliveries(r, view.Form{}, &test)
}

func (r *request) deliveryRow(d wire.WebhookDelivery) deliveryRow {
	row := deliveryRow{WebhookDelivery: d, State: badge{resultTone(hook.Result(d.Result)), resultText(hook.Result(d.Result))}, Sender: "pipeline"}
	if d.Event != "" {
		row.Sender = string(d.Event) + " event"
	}
	switch {
	case d.Revision > 0:
		row.Link, row.Path = fmt.Sprintf("revision %d", d.Revision), r.inApp("deploys")+"#revision-"+strconv.FormatInt(int64(d.Revision), 10)
	case d.Build > 0:
		row.Link, row.Path = fmt.Sprintf("build %d", d.Build), r.inApp("builds")+"#build-"+strconv.FormatInt(int64(d.Build), 10)
	}
	row.Did = didOf(d)
	if hook.Result(d.Result).Aggregated() {
		row.Sender, row.Since = "", d.Count > 1
	}
	return row
}

func didOf(d wire.WebhookDelivery) string {
	calls, since := callCount(int64(d.Count)), ""
	if d.Count > 1 {
		since = " since"
	}
	switch hook.Result(d.Result) {
	case hook.Deployed:
		return "Created"
	case hook.Building:
		return "Requested"
	case hook.Replayed:
		return "Repeated call, no changes made"
	case hook.Ignored:
		return string(d.Reason)
	case hook.Ponged:
		return "Ping succeeded"
	case hook.Refused:
		return "Rejected with " + string(d.Code)
	case hook.Broken:
		return "Not processed because a service did not respond: " + string(d.Code)
	case hook.Unproven:
		return calls + " without a valid token" + since
	case hook.Throttled:
		return calls + " over the rate limit" + since
	}
	return d.Result
}

func callCount(n int64) string {
	if n > 1 {
		return view.Comma(n) + " calls"
	}
	return "A call"
}

func resultTone(r hook.Result) string {
	switch r {
	case hook.Deployed, hook.Building, hook.Ponged:
		return toneGood
	case hook.Refused, hook.Unproven, hook.Broken:
		return toneBad
	case hook.Throttled:
		return toneAmber
	case hook.Ignored, hook.Replayed:
	}
	return ""
}

func resultText(r hook.Result) string {
	switch r {
	case hook.Deployed: // the revision may not be live
		return "Deployment"
	case hook.Building:
		return "Building"
	case hook.Ponged:
		return "Ping"
	case hook.Refused:
		return "Rejected"
	case hook.Unproven:
		return "Not authenticated"
	case hook.Broken:
		return "Error"
	case hook.Throttled:
		return "Rate limited"
	case hook.Ignored:
		return "Ignored"
	case hook.Replayed:
		return "Repeated"
	}
	return string(r)
}
