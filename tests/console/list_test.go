package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestListByKeyboard reaches the next page of a list, and the actions for selected keys, with the Tab
// key, without passing every row.
func TestListByKeyboard(t *testing.T) {
	t.Parallel()
	adminInEach(t, usual, func(s site, v *visitor) {
		plan := s.starter()
		for i := range 51 {
			s.named(plan, fmt.Sprintf("Team %02d", i))
		}
		v.opens(s.page("api-keys")).sees("1–50", "Team 00")
		v.seesNo("Team 50")
		v.reaches("Next page")
		v.leaves(func() { v.strikes(kb.Enter) })
		v.sees("Team 50", "51–51 of 51")
		v.shot("keys-last-page")
		for _, link := range []string{"Select all on this page", "Disable"} {
			v.reaches(link)
			v.leaves(func() { v.strikes(kb.Enter) })
		}
		v.sees("Disable 1 key?", "Team 50")
	})
}

func TestKeysAreSorted(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	plan := s.starter()
	for _, name := range []string{"Search", "billing", "Checkout"} {
		s.named(plan, name)
	}
	v.opens(s.page("api-keys"))
	list := v.textOf(".keys tbody")
	if a, b, c := strings.Index(list, "billing"), strings.Index(list, "Checkout"), strings.Index(list, "Search"); a < 0 || a > b || b > c {
		t.Errorf("got the keys in the order %q, want them by name", list)
	}
	v.clicks("Last seen")
	v.isAt(s.page("api-keys") + "?sort=last_seen")
}

// TestBackKeepsFilters checks that the link from a key to the list restores its filters.
func TestBackKeepsFilters(t *testing.T) {
	t.Parallel()
	s, v := adminIn(t, desk)
	plan := s.starter()
	key := s.named(plan, "Checkout team")
	s.named(plan, "Billing")
	v.opens(s.page("api-keys"))
	v.submits("Search", "Name, prefix or full key", "checkout")
	filtered := v.path()
	v.clicks("Checkout team")
	v.isAt(s.page("api-keys", key.ID))
	v.leaves(func() { v.clickAt(v.find("link", "first", "a[data-back]")) })
	v.isAt(filtered)
	v.seesNo("Billing")
	v.opens(s.page("api-keys", key.ID))
	v.leaves(func() { must(v.t, chromedp.Do(v.ctx, chromedp.NavigateBack())) })
	v.isAt(filtered)
}
