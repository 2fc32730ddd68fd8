package bench

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/bench/load"
	"github.com/sluicegate/sluice/tests/check"
)

const (
	connections = 64
	rounds      = 5
	window      = 2 * time.Second // of one load
	settling    = 25 * time.Second
)

// checkHead is a question as the ingress asks it, up to the key.
const checkHead = "GET /check/" + load.Namespace + "/" + load.App + " HTTP/1.1\r\nHost: checker\r\n" +
	"X-Forwarded-Method: GET\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: hello.example\r\nX-Forwarded-Uri: /\r\nX-Forwarded-For: 127.0.0.1\r\n"

// run is what repeated loads of one target saw.
type run struct {
	rates, p50s, p99s []float64 // requests a second, ms, ms
	cpu               []float64 // µs of the target's processor time a request
}

func (r *run) add(t *testing.T, at target, l load.Load) load.Result {
	t.Helper()
	before := processor(t, at.pid)
	seen, err := l.Run(t.Context())
	check.OK(t, err)
	r.rates = append(r.rates, seen.Rate())
	r.p50s = append(r.p50s, ms(seen.P50))
	r.p99s = append(r.p99s, ms(seen.P99))
	r.cpu = append(r.cpu, float64((processor(t, at.pid)-before).Microseconds())/float64(seen.Requests))
	return seen
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// overHTTP compares a checker with a handler that does nothing, and shows how it
// grows with the keys.
func (b *bench) overHTTP(t *testing.T) {
	t.Helper()
	program := b.build(t, "./tests/bench/target")
	bare := start(t, program, "/healthz", "ROLE=bare")
	rate := plot{title: "Checks a second over HTTP, by a bare handler's answers in the same minute", unit: ""}
	p99 := plot{title: "99th percentile of a check, by the bare handler's in the same minute", unit: ""}
	all := []target{start(t, program, "/readyz", "ROLE=checker")}
	for _, n := range sizes() {
		c := start(t, program, "/readyz", "ROLE=checker", fmt.Sprintf("KEYS=%d", n))
		all = append(all, c)
		keys := fulls(n)
		seen := compare(t, bare, c, keys, func(r load.Result) bool { return r.Statuses[http.StatusOK] == r.Requests })
		rate.points = append(rate.points, point{n, seen.share()})
		p99.points = append(p99.points, point{n, seen.wait()})
		if n == largest() {
			b.compared(seen)
			b.halfRefused(t, bare, c, keys)
		}
		use(t, c, keys)
	}
	memory := plot{title: "Resident size of a checker above an empty one's, all keys used", unit: "MB"}
	sizesOf := steady(t, all)
	for i, n := range sizes() {
		memory.points = append(memory.points, point{n, float64(sizesOf[i+1]-sizesOf[0]) / 1e6})
	}
	each := float64(sizesOf[len(sizesOf)-1]-sizesOf[0]) / float64(largest())
	b.row("memory of 1 000 000 keys, all used, above an empty checker's resident size", fmt.Sprintf("%.0f B a key", each), "250 B", each <= 250)
	b.plots = append(b.plots, rate, p99, memory)
}

func largest() int { return sizes()[len(sizes())-1] }

func fulls(n int) []string {
	all := make([]string, 0, n)
	for k := range load.Keys(n) {
		all = append(all, string(k.Full))
	}
	return all
}

// comparison is a checker and a bare handler that took turns.
type comparison struct{ bare, checker run }

// compare lets both take turns; the checker's answers must be as right says.
func compare(t *testing.T, bare, checker target, keys []string, right func(load.Result) bool) comparison {
	t.Helper()
	var c comparison
	l := load.Load{Connections: connections, Head: checkHead, Keys: keys, For: window, Now: time.Now}
	for range rounds {
		l.Address = bare.address
		c.bare.add(t, bare, l)
		l.Address = checker.address
		if seen := c.checker.add(t, checker, l); !right(seen) {
			t.Errorf("of %d checks: %v", seen.Requests, seen.Statuses)
		}
	}
	return c
}

func (c comparison) share() float64 { return median(shares(c.checker.rates, c.bare.rates)) }

func (c comparison) wait() float64 { return median(shares(c.checker.p99s, c.bare.p99s)) }

func (b *bench) compared(c comparison) {
	b.row("checker over HTTP, 1 000 000 keys, 64 connections: its requests a second by those of a bare handler",
		spread("%.2f", shares(c.checker.rates, c.bare.rates))+fmt.Sprintf(": %.0f by %.0f", median(c.checker.rates), median(c.bare.rates)), "0.92", c.share() >= 0.92)
	b.row("its 99th percentile by the bare handler's",
		spread("%.2f", shares(c.checker.p99s, c.bare.p99s))+fmt.Sprintf(": %.1f by %.1f ms", median(c.checker.p99s), median(c.bare.p99s)), "1.3", c.wait() <= 1.3)
	b.note("The server's processor time a request: bare handler %.1f µs, checker %.1f µs.", median(c.bare.cpu), median(c.checker.cpu))
}

// halfRefused compares with every other key's secret wrong.
func (b *bench) halfRefused(t *testing.T, bare, checker target, keys []string) {
	t.Helper()
	half := make([]string, len(keys))
	for i, k := range keys {
		if half[i] = k; i%2 == 0 {
			half[i] = k[:len(k)-6] + strings.Repeat("0", 6)
		}
	}
	c := compare(t, bare, checker, half, func(r load.Result) bool {
		refused := float64(r.Statuses[http.StatusUnauthorized]) / float64(r.Requests)
		return refused > 0.4 && refused < 0.6
	})
	b.row("the same with half of the requests refused, which are answered with a body", spread("%.2f", shares(c.checker.rates, c.bare.rates)), "", true)
}

// use asks about every key once, so that each has a bucket and a count.
func use(t *testing.T, at target, keys []string) {
	t.Helper()
	l := load.Load{Address: at.address, Connections: connections, Head: checkHead, Keys: keys, Once: true, For: 5 * time.Minute, Now: time.Now}
	if r, err := l.Run(t.Context()); err != nil || r.Requests != len(keys) {
		t.Fatalf("%d of %d keys used, %v", r.Requests, len(keys), err)
	}
}

// steady gives the resident sizes of processes once they have stopped changing: a
// checker looks at its heap every ten seconds.
func steady(t *testing.T, all []target) []int {
	t.Helper()
	was, since := make([]int, len(all)), time.Now()
	until(t, 5*settling, "steady", func(context.Context) bool {
		for i, at := range all {
			if now := resident(t, at.pid); now < was[i]-was[i]/50 || now > was[i]+was[i]/50 {
				was[i], since = now, time.Now()
			}
		}
		return time.Since(since) > settling
	})
	return was
}
