package cluster

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// BaseHosts are the lowercase hosts of the API and the console, except IP addresses. They restrict
// the hosts of apps (promise A7).
type BaseHosts []string

// BaseHostsOf returns the host of baseURL, if set, and the extra hosts.
func BaseHostsOf(baseURL string, extra []string) BaseHosts {
	var all BaseHosts
	add := func(host string) {
		host = strings.ToLower(strings.TrimSpace(host))
		if host != "" && net.ParseIP(strings.Trim(host, "[]")) == nil && !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	if u, err := url.Parse(baseURL); err == nil {
		add(u.Hostname())
	}
	for _, host := range extra {
		add(host)
	}
	return all
}

// Overlap reports whether a host is a base host, or above or below one. An app there could
// imitate the console, read its session cookie or set cookies for it.
func (b BaseHosts) Overlap(host string) bool {
	return b.Above(host) || slices.ContainsFunc(b, func(base string) bool { return host == base || strings.HasSuffix(base, "."+host) })
}

// Above reports whether a base host is above host, so that host can set cookies for it. A base host
// that is a public suffix, such as "localhost", does not count: browsers accept no cookies for it.
func (b BaseHosts) Above(host string) bool {
	return slices.ContainsFunc(b, func(base string) bool {
		suffix, _ := publicsuffix.PublicSuffix(base)
		return base != suffix && strings.HasSuffix(host, "."+base)
	})
}

// SharesDomain reports whether a host has the same registrable domain as a base host, such as
// "shop.example.com" and "sluice.example.com". Such an app can set so many cookies for the common
// domain that browsers drop the console's.
func (b BaseHosts) SharesDomain(host string) bool {
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	return err == nil && slices.ContainsFunc(b, func(base string) bool {
		theirs, err := publicsuffix.EffectiveTLDPlusOne(base)
		return err == nil && theirs == domain
	})
}
