package infra

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/tests/check"
)

// event is a line of the audit log.
type event struct {
	RequestReceivedTimestamp time.Time

	Verb      string
	User      struct{ Username string }
	UserAgent string

	ObjectRef struct {
		Resource, Subresource, Namespace, Name string
		APIGroup                               string `json:"apiGroup"`
	} `json:"objectRef"`

	ResponseStatus struct {
		Code    int
		Message string
	} `json:"responseStatus"`

	Annotations map[string]string
}

func (e event) function() string {
	return strings.TrimPrefix(e.User.Username, "system:serviceaccount:"+system+":")
}

type seen struct {
	used   map[right]int
	denied []event
}

// readAudit reads the audit log, without the calls of test clients.
func readAudit(t *testing.T) seen {
	t.Helper()
	f, err := os.Open(filepath.Join(world.Info().LogsDir, "kube-audit.log"))
	check.OK(t, err)
	defer f.Close()
	s := seen{used: map[right]int{}}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Logf("skip an incomplete line: %v", err)
			continue
		}
		s.add(t, e)
	}
	check.OK(t, lines.Err())
	return s
}

func (e event) role() string {
	m := regexp.MustCompile(` of (Role|ClusterRole) "([^"]+)"`).FindStringSubmatch(e.Annotations["authorization.k8s.io/reason"])
	if m == nil {
		return ""
	}
	return key(m[1], m[2], e.ObjectRef.Namespace)
}

func (s *seen) add(t *testing.T, e event) {
	t.Helper()
	if e.UserAgent == intruder {
		return
	}
	if e.Annotations["authorization.k8s.io/decision"] != "allow" {
		s.denied = append(s.denied, e)
		return
	}
	role := e.role()
	if !strings.HasPrefix(role, "sluice-") {
		if role != "system:basic-user" && role != "system:discovery" {
			t.Errorf("%s may %s %s through the unexpected role %q", e.function(), e.Verb, e.ObjectRef.Resource, role)
		}
		return
	}
	resource := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		resource += "/" + e.ObjectRef.Subresource
	}
	s.used[right{role, e.ObjectRef.APIGroup, resource, e.Verb}]++
	if e.ResponseStatus.Code != http.StatusCreated {
		return
	}
	switch { // further rights that the API server checks
	case e.Verb == "patch":
		s.used[right{role, e.ObjectRef.APIGroup, resource, "create"}]++
	case resource == "rolebindings":
		s.used[right{role, "rbac.authorization.k8s.io", "clusterroles", "bind"}]++
	}
}
