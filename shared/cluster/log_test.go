package cluster

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"k8s.io/klog/v2"
)

// TestClientGoLog tests that client-go logs through the function's logger, and logs nothing in Open.
// klog is global, so the test is not parallel.
func TestClientGoLog(t *testing.T) {
	var bare, lines bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&bare)
	t.Cleanup(func() { klog.ClearLogger(); klog.LogToStderr(true) })
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if _, err := Open(Options{}); err == nil {
		t.Error("Open without a service account: got no error")
	}
	klog.Flush()
	if bare.Len() > 0 {
		t.Errorf("client-go logged %s", bare.String())
	}
	_, _ = Open(Options{Log: slog.New(slog.NewJSONHandler(&lines, nil))})
	klog.Info("Waited before sending request")
	klog.Flush()
	var line struct{ Level, Msg string }
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Level != "INFO" || line.Msg != "Waited before sending request" || bare.Len() > 0 {
		t.Errorf("%+v, %v: %s and %s", line, err, lines.String(), bare.String())
	}
}
