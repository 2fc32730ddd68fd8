package firestore_test

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/emulators/firestore"
	"github.com/sluicegate/sluice/tests/check"
)

func TestStartAndClose(t *testing.T) {
	t.Parallel()
	s, err := firestore.Start(t.Context(), firestore.Options{})
	check.OK(t, err)
	if s.Pid() <= 0 {
		t.Errorf("pid %d", s.Pid())
	}
	if err := s.Answers(t.Context()); err != nil {
		t.Error(err)
	}
	check.OK(t, s.Close())
	if s.Answers(t.Context()) == nil {
		t.Error("got a response after Close, want an error")
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestSideBySide(t *testing.T) {
	t.Parallel()
	const n = 3
	hosts := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var out bytes.Buffer
			s, err := firestore.Start(t.Context(), firestore.Options{Log: &out})
			if err != nil {
				t.Error(err)
				return
			}
			hosts[i] = s.Host
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !strings.Contains(out.String(), s.Host) {
				t.Errorf("the log %q does not name %s", out.String(), s.Host)
			}
		})
	}
	wg.Wait()
	for i := range n {
		for j := range i {
			if hosts[i] == hosts[j] {
				t.Errorf("two emulators on %s", hosts[i])
			}
		}
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	first, err := firestore.Start(t.Context(), firestore.Options{})
	check.OK(t, err)
	defer func() {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, text, err := net.SplitHostPort(first.Host)
	check.OK(t, err)
	port, err := strconv.Atoi(text)
	check.OK(t, err)
	second, err := firestore.Start(t.Context(), firestore.Options{Port: port})
	if err == nil {
		t.Fatalf("second emulator: started on %s, want an error", second.Host)
	}
	if !strings.Contains(err.Error(), first.Host) {
		t.Errorf("the error %q does not name %s", err, first.Host)
	}
}
