// Command validate checks an Envoy configuration against Envoy's types and their declared rules,
// including the contents of typed_config. It is a separate module, because no other program needs
// these types.
//
// usage: validate FILE
package main

import (
	"errors"
	"fmt"
	"os"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "validate: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: validate FILE")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	json, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	var b bootstrap.Bootstrap
	if err := protojson.Unmarshal(json, &b); err != nil { // rejects unknown fields and types
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	n, err := validate(&b)
	if err != nil {
		return fmt.Errorf("check %s: %w", args[0], err)
	}
	fmt.Printf("%d messages are valid\n", n)
	return nil
}

// validate checks a message and the messages in its Any fields, and returns their number.
func validate(m proto.Message) (n int, err error) {
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			return 0, err
		}
		n++
	}
	walked := protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		held, ok := p.Index(-1).Value.Interface().(interface{ Interface() proto.Message })
		if !ok {
			return nil
		}
		packed, ok := held.Interface().(*anypb.Any)
		if !ok {
			return nil
		}
		inner, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		more, err := validate(inner)
		n += more
		if err != nil {
			return err
		}
		return protorange.Break // its content was checked
	})
	return n, walked
}
