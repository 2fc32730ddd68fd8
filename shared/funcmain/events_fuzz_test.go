package funcmain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"
)

// The function receives only valid events. No input causes a 5xx, which senders would retry.
func FuzzEvents(f *testing.F) {
	f.Add("application/cloudevents+json", "", "", "", "", []byte(`{"specversion":"1.0","id":"1","source":"x","type":"t","data":{}}`))
	f.Add("application/cloudevents-batch+json", "", "", "", "", []byte(`[]`))
	f.Add("application/json", "1", "t", "x", "1.0", []byte(`{"pipelineRun":{}}`))
	f.Add("application/json", "1", "t", "::", "0.3", []byte(`{`))
	f.Add("APPLICATION/CLOUDEVENTS+JSON; charset=utf-8", "", "", "", "", []byte(`{"specversion":"1.0","id":1}`))
	f.Add("application/cloudevents+json", "", "", "", "", []byte(`{"specversion":"1.0","id":"1","source":"x","type":"t","data_base64":"!"}`))
	f.Add("", "1", "", "", "9.9", []byte{})
	f.Fuzz(func(t *testing.T, kind, id, eventType, source, version string, body []byte) {
		h := Events(slog.New(slog.DiscardHandler), func(_ context.Context, e cloudevents.Event) error {
			if err := e.Validate(); err != nil {
				t.Errorf("the receiver got an invalid event: %v", err)
			}
			if e.Type() == "fail" {
				return errors.New("as asked")
			}
			return nil
		})
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		for name, value := range map[string]string{"Content-Type": kind, "Ce-Id": id, "Ce-Type": eventType, "Ce-Source": source, "Ce-Specversion": version} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError && eventType != "fail" && !bytes.Contains(body, []byte("fail")) {
			t.Errorf("got status %d %s", w.Code, w.Body)
		}
	})
}
