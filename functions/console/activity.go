package console

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluicegate/sluice/functions/console/internal/view"
	"github.com/sluicegate/sluice/shared/audit"
	"github.com/sluicegate/sluice/shared/client"
	"github.com/sluicegate/sluice/shared/wire"
)

const kindField = "kind"

type kindOfLog struct {
	Value string // of the query parameter; "" means all
	Name  string
	Path  string
	Here  bool
}

func showActivity(r *request) error {
	kind := r.URL.Query().Get(kindField)
	path := r.inEnvironment("activity")
	l := recordLog{
		Title: "Activity", tab: tabActivity, Path: path,
		Lead:  "Changes, deployments, builds and denied requests in " + r.environment + ", newest first.",
		About: "An actor is a username, a service token such as “token:nightly”, a build such as “build 7”, or “webhook”. Days are UTC days; the first and last day are included.",
		Kinds: []kindOfLog{{Name: "All", Path: path, Here: kind == ""}},
		read: func(q client.AuditQuery, p client.Page) ([]wire.Activity, string, error) {
			list, err := r.api.ActivityPage(r.Context(), r.project, r.environment, client.ActivityQuery{Kind: kind, From: q.From, To: q.To, Actor: q.Actor}, p)
			return list.Items, list.NextPageToken, err
		},
	}
	for _, k := range audit.Kinds() {
		l.Kinds = append(l.Kinds, kindOfLog{Value: string(k), Name: kindText(k), Path: l.narrowed(kindField, string(k)), Here: kind == string(k)})
	}
	if kind == "" {
		l.denied = func() ([]wire.UsageDay, error) {
			u, err := r.api.EnvironmentUsage(r.Context(), r.project, r.environment, "", "")
			return u.Days[max(len(u.Days)-weekDays, 0):], err
		}
	}
	return r.showLog(l)
}

func kindText(k audit.Kind) string {
	switch k {
	case audit.Deployments:
		return "Deployments"
	case audit.Keys:
		return "Keys and plans"
	case audit.Settings:
		return "Settings"
	case audit.Calls:
		return "Webhook calls"
	}
	return string(k)
}

// withDenied adds the counts of denied requests to the days of a page. It inserts days without
// records if they belong on the page.
func withDenied(days []recordDay, usage []wire.UsageDay, at view.Paging, now time.Time) []recordDay {
	for _, u := range usage {
		i, found := slices.BinarySearchFunc(days, u.Date, func(d recordDay, date string) int { return -cmp.Compare(d.Date, date) })
		before := i == 0 && at.First != ""
		after := i == len(days) && at.Next != ""
		switch {
		case u.Refused() == 0 || before || after:
		case found:
			days[i].UsageTotals = u.UsageTotals
		default:
			days = slices.Insert(days, i, recordDay{Title: view.RelativeDay(u.Date, now), Date: u.Date, UsageTotals: u.UsageTotals})
		}
	}
	return days
}
