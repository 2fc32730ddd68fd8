package apps

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
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
	if host == strings.ToLower(c.AppsDomain) || c.baseHosts().Overlap(host) {
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

// baseHosts are the hosts of the API and the console.
func (c Config) baseHosts() cluster.BaseHosts { return cluster.BaseHostsOf(c.BaseURL, c.ExtraHosts) }

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

// What stands for something else in APP_HOST.
const (
	appMark       = "{app}"
	namespaceMark = "{namespace}"
	domainMark    = "{domain}"
)

// Regular expressions of names; a namespace is a project and an environment.
const (
	anyLabel     = `[a-z0-9](?:[a-z0-9-]*[a-z0-9])?`
	anyNamespace = anyLabel + "-" + anyLabel
)

// checkAppHost takes a pattern of one label or two below the domain. The last of them
// names the namespace, so that it tells whose a host is.
func checkAppHost(pattern string) error {
	for _, mark := range []string{appMark, namespaceMark, domainMark} {
		if strings.Count(pattern, mark) != 1 {
			return fmt.Errorf("%s must be in it once", mark)
		}
	}
	name, found := strings.CutSuffix(pattern, "."+domainMark)
	labels := strings.Split(name, ".")
	switch sample := strings.NewReplacer(appMark, "a", namespaceMark, "b-c").Replace(name); {
	case !found:
		return errors.New("it must end in ." + domainMark)
	case checkHost(sample+".example.com") != nil:
		return errors.New("it becomes no DNS name")
	case len(labels) > 2 || len(labels) == 2 && (labels[0] == "" || !strings.Contains(labels[0], appMark)):
		return errors.New("each of its labels must name the app or the namespace")
	case !strings.Contains(labels[len(labels)-1], namespaceMark):
		return errors.New("its last label before " + domainMark + " must name the namespace")
	case strings.Contains(name, appMark+namespaceMark), strings.Contains(name, namespaceMark+appMark):
		return errors.New("something must stand between the app and the namespace")
	}
	return nil
}

// defaultHost is the host of an app that asks for none. Problem: invalid_host.
func (c Config) defaultHost(ref app.Ref) (string, error) {
	host := strings.NewReplacer(appMark, ref.Name, namespaceMark, ref.Namespace, domainMark, c.AppsDomain).Replace(c.AppHost)
	switch {
	case checkHost(host) != nil:
		return "", problem.New(problem.InvalidHost,
			"The app's default host, %s, is no DNS name: its parts have at most %d characters each, and all of it %d. Set host to a shorter one.",
			host, maxHostLabel, maxHost)
	case c.reservedHost(host):
		return "", problem.New(problem.InvalidHost, "The app's default host, %s, is reserved. Set host to another one.", host)
	}
	return host, nil
}

// anothersHost tells whether a host is one that an app of another namespace may get by
// default, or above or below such a one, where cookies for it could be set: that is for
// the label directly below the domain to say. Names below the namespace's own are the
// namespace's whatever the pattern says now, since apps keep their hosts.
func (c Config) anothersHost(host, namespace string) bool {
	name, found := strings.CutSuffix(host, "."+c.AppsDomain)
	if !found {
		return false
	}
	label, nested := name, false
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		label, nested = name[i+1:], true
	}
	own := nested && label == namespace || c.lastLabel(regexp.QuoteMeta(namespace)).MatchString(label)
	return !own && (nested || c.lastLabel(anyNamespace).MatchString(label))
}

// lastLabel matches what stands directly below the domain in default hosts of a
// namespace, given as a regular expression.
func (c Config) lastLabel(namespace string) *regexp.Regexp {
	name := strings.TrimSuffix(c.AppHost, "."+domainMark)
	pattern := regexp.QuoteMeta(name[strings.LastIndexByte(name, '.')+1:])
	return regexp.MustCompile("^" + strings.NewReplacer(
		regexp.QuoteMeta(appMark), anyLabel, regexp.QuoteMeta(namespaceMark), namespace).Replace(pattern) + "$")
}

// explainTaken says which host is taken to one who has not chosen it: with a pattern such
// as {app}-{namespace}, two apps may have the same default host.
func explainTaken(err error, host string) error {
	if !problem.Is(err, problem.HostTaken) {
		return err
	}
	return problem.New(problem.HostTaken, "Another app already answers on %s, this app's default host. Set host to another one.", host).Because(err)
}
