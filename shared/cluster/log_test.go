package cluster

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"k8s.io/klog/v2"
)

// TestLog: what client-go says goes where the function's own lines go, and finding the
// cluster from inside of it says nothing at all. klog is the process's, so nothing else
// runs meanwhile.
func TestLog(t *testing.T) {
	var bare, lines bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&bare)
	t.Cleanup(func() { klog.ClearLogger(); klog.LogToStderr(true) })
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if _, err := Open(Options{}); err == nil {
		t.Error("a cluster was found without a service account")
	}
	klog.Flush()
	if bare.Len() > 0 {
		t.Errorf("client-go said %s", bare.String())
	}
	_, _ = Open(Options{Log: slog.New(slog.NewJSONHandler(&lines, nil))}) // it fails as before
	klog.Info("Waited before sending request")
	klog.Flush()
	var line struct{ Level, Msg string }
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Level != "INFO" || line.Msg != "Waited before sending request" || bare.Len() > 0 {
		t.Errorf("%+v, %v: %s and %s", line, err, lines.String(), bare.String())
	}
}
