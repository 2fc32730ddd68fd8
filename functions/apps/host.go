package apps

import (
	"net"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	maxHost      = 253 // characters of a DNS name
	maxHostLabel = 63  // characters of one of its labels
)

// host is the public host of a new app: the given one, in lower case, or the
// app's default. Problem: invalid_host.
func (c Config) host(given *string, ref app.Ref) (string, error) {
	if given == nil {
		return c.defaultHost(ref)
	}
	host := strings.ToLower(*given)
	if err := checkHost(host); err != nil {
		return "", err
	}
	if c.reservedHost(host) || c.anothersHost(host, ref.Namespace) {
		return "", problem.New(problem.InvalidHost, "That host is reserved.")
	}
	return host, nil
}

// reservedHost tells whether a host belongs to Sluice or to others on its ingress.
func (c Config) reservedHost(host string) bool {
	if host == strings.ToLower(c.AppsDomain) || c.overlapsConsole(host) {
		return true
	}
	for _, r := range c.ReservedHosts {
		r = strings.ToLower(strings.TrimSpace(r))
		if host == r || strings.HasPrefix(r, ".") && strings.HasSuffix(host, r) {
			return true
		}
	}
	return false
}

// overlapsConsole tells whether a host is the console's, below it or above it: what
// answers there could pass for the console, and set cookies that browsers send it.
func (c Config) overlapsConsole(host string) bool {
	console := c.consoleHost()
	return console != "" && (host == console || strings.HasSuffix(console, "."+host) || c.belowConsole(host))
}

// belowConsole tells whether a host is below the console's, and can set cookies for it:
// not what is below a public suffix, e.g. "shop.localhost" below "localhost".
func (c Config) belowConsole(host string) bool {
	console := c.consoleHost()
	suffix, _ := publicsuffix.PublicSuffix(console)
	return console != suffix && strings.HasSuffix(host, "."+console)
}

// besideConsole tells whether a host has its registrable domain in common with the
// console, e.g. "shop.example.com" with "sluice.example.com". The console's own cookies
// are none that such an app can set (package identity), but it can set so many others
// for the common domain that browsers push them out, or send more than the ingress takes.
func (c Config) besideConsole(host string) bool {
	ours, err := publicsuffix.EffectiveTLDPlusOne(c.consoleHost())
	if err != nil { // no BASE_URL, or nothing that cookies can be set for
		return false
	}
	theirs, err := publicsuffix.EffectiveTLDPlusOne(host)
	return err == nil && ours == theirs
}

// consoleHost is the host of BASE_URL, which the console answers on; "" if that is not
// set, or an IP address, which shares cookies with nobody.
func (c Config) consoleHost() string {
	u, err := url.Parse(c.BaseURL)
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// checkHost takes a DNS name of two labels or more, in lower case and without a
// dot at the end; no IP address. Problem: invalid_host.
func checkHost(host string) error {
	labels := strings.Split(host, ".")
	ok := len(host) <= maxHost && len(labels) >= 2
	for _, l := range labels {
		ok = ok && validHostLabel(l)
	}
	// A name that ends in a number is read as an IPv4 address by browsers.
	if ok && strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		ok = false
	}
	if !ok {
		return problem.New(problem.InvalidHost, "host is a DNS name such as shop.example.com, in ASCII, of at most %d characters.", maxHost)
	}
	return nil
}

func validHostLabel(l string) bool {
	if l == "" || len(l) > maxHostLabel || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for _, c := range []byte(l) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
