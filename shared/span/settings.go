package span

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Settings are the OpenTelemetry variables that this package validates, because the SDK ignores
// invalid values. The SDK itself reads these and other variables.
type Settings struct {
	Endpoint string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"`        // e.g. "http://collector:4318"; "" disables the export
	Traces   string `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"` // e.g. "http://collector:4318/v1/traces"

	// Headers are sent with every export, e.g. "authorization=Bearer%20abc". They may contain
	// secrets.
	Headers       string `env:"OTEL_EXPORTER_OTLP_HEADERS"`
	TracesHeaders string `env:"OTEL_EXPORTER_OTLP_TRACES_HEADERS"`

	Protocol       string `env:"OTEL_EXPORTER_OTLP_PROTOCOL"`
	TracesProtocol string `env:"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"`

	Exporter string `env:"OTEL_TRACES_EXPORTER"` // otlp or none
	Disabled bool   `env:"OTEL_SDK_DISABLED"`

	Sampler string `env:"OTEL_TRACES_SAMPLER"`     // default parentbased_always_on
	Ratio   string `env:"OTEL_TRACES_SAMPLER_ARG"` // from 0 to 1

	Queue int `env:"OTEL_BSP_MAX_QUEUE_SIZE, default=2048"` // maximum number of waiting spans
}

func (c Settings) on() bool {
	return (c.Endpoint != "" || c.Traces != "") && !c.Disabled && c.Exporter != "none"
}

func samplers() []string {
	return []string{
		"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
	}
}

// check returns an error if the settings are invalid. The error contains no addresses or headers.
func (c Settings) check() error {
	for name, address := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.Endpoint, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.Traces} {
		u, err := url.Parse(address)
		if address != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "") {
			return fmt.Errorf("%s must be http://host:port or https://host:port, with a path or without", name)
		}
	}
	if protocol := cmp.Or(c.TracesProtocol, c.Protocol, "http/protobuf"); protocol != "http/protobuf" {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, but must be http/protobuf", protocol)
	}
	if exporter := cmp.Or(c.Exporter, "otlp"); exporter != "otlp" {
		return fmt.Errorf("OTEL_TRACES_EXPORTER is %q, but must be otlp or none", exporter)
	}
	if c.Sampler != "" && !slices.Contains(samplers(), c.Sampler) {
		return fmt.Errorf("OTEL_TRACES_SAMPLER is %q, but must be one of %s", c.Sampler, strings.Join(samplers(), ", "))
	}
	if ratio, err := strconv.ParseFloat(cmp.Or(c.Ratio, "1"), 64); err != nil || !(ratio >= 0 && ratio <= 1) {
		return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q, but must be from 0 to 1", c.Ratio)
	}
	if c.Queue < 1 {
		return fmt.Errorf("OTEL_BSP_MAX_QUEUE_SIZE is %d, but must be at least 1", c.Queue)
	}
	return errors.Join(checkHeaders("OTEL_EXPORTER_OTLP_HEADERS", c.Headers), checkHeaders("OTEL_EXPORTER_OTLP_TRACES_HEADERS", c.TracesHeaders))
}

func checkHeaders(variable, list string) error {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		_, err := url.PathUnescape(value)
		if !ok || err != nil || !isToken(strings.TrimSpace(name)) {
			return fmt.Errorf("%s must be name=value, separated by commas, with the values percent-encoded", variable)
		}
	}
	return nil
}

func isToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) < 0
}
