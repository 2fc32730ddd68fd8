package apps

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/shared/app"
	"github.com/sluicegate/sluice/shared/cluster"
	"github.com/sluicegate/sluice/shared/problem"
)

const (
	maxHost      = 253 // characters of a DNS name
	maxHostLabel = 63  // characters of one of its labels
)

// host returns the given host in lower case, or the app's default host. It returns an
// invalid_host problem if the host is invalid or reserved.
func (c Config) host(given *string, ref app.Ref) (string, error) {
	if given == nil {
		return c.defaultHost(ref)
	}
	host := strings.ToLower(*given)
	if err := checkHost(host); err != nil {
		return "", err
	}
	switch {
	case c.reservedHost(host):
		return "", problem.New(problem.InvalidHost, "The host %s is reserved by Sluice or its operator. Choose another host.", host)
	case c.otherDefaultHost(host, ref.Namespace):
		return "", problem.New(problem.InvalidHost, "The host %s is reserved for the default hosts of another environment. Choose another host.", host)
	}
	return host, nil
}

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

func (c Config) baseHosts() cluster.BaseHosts { return cluster.BaseHostsOf(c.BaseURL, c.ExtraHosts) }

// checkHost returns an invalid_host problem unless host is a lowercase DNS name of two labels or
// more, without a trailing dot.
func checkHost(host string) error {
	labels := strings.Split(host, ".")
	switch {
	case len(host) > maxHost:
		return problem.New(problem.InvalidHost, "host must have at most %d characters.", maxHost)
	case slices.ContainsFunc(labels, invalidHostLabel):
		return problem.New(problem.InvalidHost,
			"host must be a DNS name such as shop.example.com. Each part has 1 to %d letters a-z, digits and hyphens, and no hyphen at its ends.", maxHostLabel)
	case len(labels) < 2:
		return problem.New(problem.InvalidHost, "host must have at least two parts, such as shop.example.com.")
	case strings.Trim(labels[len(labels)-1], "0123456789") == "":
		return problem.New(problem.InvalidHost, "host must not end in a number, because browsers read it as an IP address. Use a name such as shop.example.com.")
	}
	return nil
}

func invalidHostLabel(l string) bool {
	if l == "" || len(l) > maxHostLabel || l[0] == '-' || l[len(l)-1] == '-' {
		return true
	}
	for _, c := range []byte(l) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return true
		}
	}
	return false
}

const (
	appMark       = "{app}"
	namespaceMark = "{namespace}"
	domainMark    = "{domain}"
)

const (
	anyLabel     = `[a-z0-9](?:[a-z0-9-]*[a-z0-9])?`
	anyNamespace = anyLabel + "-" + anyLabel
)

// checkAppHost returns an error unless the pattern has one or two labels below the domain, and the
// label directly below it contains the namespace.
func checkAppHost(pattern string) error {
	for _, mark := range []string{appMark, namespaceMark, domainMark} {
		if strings.Count(pattern, mark) != 1 {
			return fmt.Errorf("it must contain %s exactly once", mark)
		}
	}
	name, found := strings.CutSuffix(pattern, "."+domainMark)
	labels := strings.Split(name, ".")
	switch sample := strings.NewReplacer(appMark, "a", namespaceMark, "b-c").Replace(name); {
	case !found:
		return errors.New("it must end in ." + domainMark)
	case checkHost(sample+".example.com") != nil:
		return errors.New("it does not yield a DNS name")
	case len(labels) > 2 || len(labels) == 2 && (labels[0] == "" || !strings.Contains(labels[0], appMark)):
		return errors.New("each of its labels must name the app or the namespace")
	case !strings.Contains(labels[len(labels)-1], namespaceMark):
		return errors.New("its last label before " + domainMark + " must name the namespace")
	case strings.Contains(name, appMark+namespaceMark), strings.Contains(name, namespaceMark+appMark):
		return errors.New("a character must separate the app and the namespace")
	}
	return nil
}

func (c Config) defaultHost(ref app.Ref) (string, error) {
	host := strings.NewReplacer(appMark, ref.Name, namespaceMark, ref.Namespace, domainMark, c.AppsDomain).Replace(c.AppHost)
	switch {
	case checkHost(host) != nil:
		return "", problem.New(problem.InvalidHost,
			"The app's default host, %s, is too long: a DNS name must have at most %d characters in each part and %d in total. Set host to a shorter name.",
			host, maxHostLabel, maxHost)
	case c.reservedHost(host):
		return "", problem.New(problem.InvalidHost, "The app's default host, %s, is reserved. Set host to another name.", host)
	}
	return host, nil
}

// otherDefaultHost reports whether a host may be the default host of an app in another namespace,
// or is above or below one. Only the label directly below the domain counts. All names below a
// namespace's own name belong to it, since apps keep their hosts when the pattern changes.
func (c Config) otherDefaultHost(host, namespace string) bool {
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

// lastLabel returns a pattern for the label directly below the domain in the default hosts of a
// namespace. namespace is a regular expression.
func (c Config) lastLabel(namespace string) *regexp.Regexp {
	name := strings.TrimSuffix(c.AppHost, "."+domainMark)
	pattern := regexp.QuoteMeta(name[strings.LastIndexByte(name, '.')+1:])
	return regexp.MustCompile("^" + strings.NewReplacer(
		regexp.QuoteMeta(appMark), anyLabel, regexp.QuoteMeta(namespaceMark), namespace).Replace(pattern) + "$")
}

// nameDefaultHost adds the app's default host to the message of a host_taken problem.
func nameDefaultHost(err error, host string) error {
	if !problem.Is(err, problem.HostTaken) {
		return err
	}
	return problem.New(problem.HostTaken, "Another app already uses %s, this app's default host. Set host to another name.", host).WithCause(err)
}
