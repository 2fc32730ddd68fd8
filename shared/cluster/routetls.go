package cluster

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

// resolverName is what Traefik's configuration may call a certResolver.
var resolverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// parseRouteTLS reads [Options.RouteTLS] into what becomes spec.tls of a route, nil
// where that is not Sluice's to write.
func parseRouteTLS(s string) (map[string]any, error) {
	kind, name, _ := strings.Cut(s, ":")
	switch {
	case s == "":
		return nil, nil //nolint:nilnil // no spec.tls is what was asked for
	case s == "default": // an empty spec.tls says the same, but cannot be applied where there was a field in it
		return map[string]any{"store": map[string]any{"name": "default"}}, nil
	case kind == "resolver" && resolverName.MatchString(name):
		return map[string]any{"certResolver": name}, nil
	case kind == "secret" && len(validation.IsDNS1123Subdomain(name)) == 0:
		return map[string]any{"secretName": name}, nil
	}
	return nil, fmt.Errorf("the routes' TLS %q is not empty, default, resolver:NAME or secret:NAME", s)
}

// sameTLS tells whether the fields of a route's spec.tls that Sluice has written are
// those that it shall. The others, e.g. tls.options, are for others to set; what
// Sluice has once written and shall not any more is known by its field manager.
func sameTLS(u *unstructured.Unstructured, shall map[string]any) bool {
	own := ownTLS(u.GetManagedFields())
	is, _, err := unstructured.NestedMap(u.Object, "spec", "tls")
	if err != nil || len(own) != len(shall) {
		return false
	}
	for field, v := range shall {
		if _, ours := own["f:"+field]; !ours || !reflect.DeepEqual(is[field], v) {
			return false
		}
	}
	return true
}

// ownTLS gives the fields of spec.tls that Sluice has applied, as "f:secretName".
func ownTLS(managed []metav1.ManagedFieldsEntry) map[string]json.RawMessage {
	for _, m := range managed {
		if m.Manager != fieldManager || m.Operation != metav1.ManagedFieldsOperationApply || m.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Spec struct {
				TLS map[string]json.RawMessage `json:"f:tls"`
			} `json:"f:spec"`
		}
		if json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			return nil // the API server's own format
		}
		delete(fields.Spec.TLS, ".") // the object itself, where others have a field in it
		return fields.Spec.TLS
	}
	return nil
}
