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
	window      = 2 * time.Second
	settling    = 25 * time.Second
)

// checkHead is a check without the key.
const checkHead = "GET /check/" + load.Namespace + "/" + load.App + " HTTP/1.1\r\nHost: checker\r\n" +
	"X-Forwarded-Method: GET\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: hello.example\r\nX-Forwarded-Uri: /\r\nX-Forwarded-For: 127.0.0.1\r\n"

type run struct {
	rates, p50s, p99s []float64 // requests per second, ms, ms
	cpu               []float64 // µs of processor time per request
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

// overHTTP compares a checker with a handler that does nothing.
func (b *bench) overHTTP(t *testing.T) {
	t.Helper()
	program := b.build(t, "./tests/bench/target")
	bare := start(t, program, "/healthz", "ROLE=bare")
	rate := plot{title: "Checks per second over HTTP, divided by responses of a bare handler in the same minute", unit: ""}
	p99 := plot{title: "99th percentile of a check, divided by the bare handler's in the same minute", unit: ""}
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
			b.halfDenied(t, bare, c, keys)
		}
		use(t, c, keys)
	}
	memory := plot{title: "Resident size of a checker minus that of an empty one, all keys used", unit: "MB"}
	sizesOf := steady(t, all)
	for i, n := range sizes() {
		memory.points = append(memory.points, point{n, float64(sizesOf[i+1]-sizesOf[0]) / 1e6})
	}
	each := float64(sizesOf[len(sizesOf)-1]-sizesOf[0]) / float64(largest())
	b.row("memory of 1,000,000 keys, all used, in addition to an empty checker's resident size", fmt.Sprintf("%.0f B per key", each), "250 B", each <= 250)
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

type comparison struct{ bare, checker run }

// compare sends load to both servers in turns. valid checks the checker's responses.
func compare(t *testing.T, bare, checker target, keys []string, valid func(load.Result) bool) comparison {
	t.Helper()
	var c comparison
	l := load.Load{Connections: connections, Head: checkHead, Keys: keys, For: window, Now: time.Now}
	for range rounds {
		l.Address = bare.address
		c.bare.add(t, bare, l)
		l.Address = checker.address
		if seen := c.checker.add(t, checker, l); !valid(seen) {
			t.Errorf("%d checks: got statuses %v", seen.Requests, seen.Statuses)
		}
	}
	return c
}

func (c comparison) share() float64 { return median(shares(c.checker.rates, c.bare.rates)) }

func (c comparison) wait() float64 { return median(shares(c.checker.p99s, c.bare.p99s)) }

func (b *bench) compared(c comparison) {
	b.row("checker over HTTP, 1,000,000 keys, 64 connections: requests per second, divided by those of a bare handler",
		spread("%.2f", shares(c.checker.rates, c.bare.rates))+fmt.Sprintf(": %.0f / %.0f", median(c.checker.rates), median(c.bare.rates)), "0.92", c.share() >= 0.92)
	b.row("99th percentile of the checker, divided by the bare handler's",
		spread("%.2f", shares(c.checker.p99s, c.bare.p99s))+fmt.Sprintf(": %.1f / %.1f ms", median(c.checker.p99s), median(c.bare.p99s)), "1.3", c.wait() <= 1.3)
	b.note("Processor time of the server per request: bare handler %.1f µs, checker %.1f µs.", median(c.bare.cpu), median(c.checker.cpu))
}

func (b *bench) halfDenied(t *testing.T, bare, checker target, keys []string) {
	t.Helper()
	half := make([]string, len(keys))
	for i, k := range keys {
		if half[i] = k; i%2 == 0 {
			half[i] = k[:len(k)-6] + strings.Repeat("0", 6)
		}
	}
	c := compare(t, bare, checker, half, func(r load.Result) bool {
		denied := float64(r.Statuses[http.StatusUnauthorized]) / float64(r.Requests)
		return denied > 0.4 && denied < 0.6
	})
	b.row("requests per second with half of the requests denied, which have a response body, divided by those of a bare handler", spread("%.2f", shares(c.checker.rates, c.bare.rates)), "", true)
}

// use sends one check per key, so that each has a bucket and a count.
func use(t *testing.T, at target, keys []string) {
	t.Helper()
	l := load.Load{Address: at.address, Connections: connections, Head: checkHead, Keys: keys, Once: true, For: 5 * time.Minute, Now: time.Now}
	if r, err := l.Run(t.Context()); err != nil || r.Requests != len(keys) {
		t.Fatalf("got %d keys used, want %d: %v", r.Requests, len(keys), err)
	}
}

// steady waits until the resident sizes are stable. A checker measures its heap every 10 s.
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
