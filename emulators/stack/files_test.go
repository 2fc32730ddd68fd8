package stack_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/stack"
	"github.com/sluicegate/sluice/tests/check"
)

func checkMounts(t *testing.T, dir string, info stack.Info) {
	t.Helper()
	names := func(mount string) []string {
		var list []string
		entries, err := os.ReadDir(filepath.Join(dir, "secrets", mount))
		check.OK(t, err)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "..") {
				list = append(list, filepath.Ext(e.Name()))
			}
		}
		slices.Sort(list)
		return list
	}
	want := map[string][]string{"session-keys": {".key", ".pub"}, "session-public-keys": {".pub"}}
	for mount, extensions := range want {
		check.Equal(t, mount, extensions, names(mount))
	}
	config, err := clientcmd.BuildConfigFromFlags("", info.Kubeconfig)
	check.OK(t, err)
	client, err := kubernetes.NewForConfig(config)
	check.OK(t, err)
	secrets := client.CoreV1().Secrets("sluice-system")
	secret, err := secrets.Get(t.Context(), "sluice-session-keys", meta.GetOptions{})
	check.OK(t, err)
	rotate(t, secret)
	if _, err := secrets.Update(t.Context(), secret, meta.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check.Eventually(t, "mount the second key", 10*time.Second, func() error {
		if got := len(names("session-public-keys")); got != 2 {
			return fmt.Errorf("%d public keys", got)
		}
		return nil
	})
}

// rotate adds a second key that sorts before the first one, which still signs.
func rotate(t *testing.T, secret *core.Secret) {
	t.Helper()
	added := map[string][]byte{}
	for name, value := range secret.Data {
		added["2000-01-01a"+filepath.Ext(name)] = value
	}
	for name, value := range added {
		secret.Data[name] = value
	}
}

// checkLogs checks that the logs contain neither secrets nor headers with secrets.
func checkLogs(t *testing.T, dir string, info stack.Info) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "logs", "*.log"))
	if err != nil || len(logs) < 10 {
		t.Fatalf("got logs %v, %v, want at least 10", logs, err)
	}
	for _, log := range logs {
		b, err := os.ReadFile(log)
		check.OK(t, err)
		if bytes.Contains(b, []byte(info.Demo.Key)) || bytes.Contains(b, []byte(info.Admin.Password)) {
			t.Errorf("%s contains a secret", filepath.Base(log))
		}
	}
	lines := accessLines(t, filepath.Join(dir, "logs", "traefik-access.log"))
	if len(lines) == 0 {
		t.Error("the access log is empty")
	}
	for _, line := range lines {
		for field := range line {
			if (strings.HasPrefix(field, "request_") || strings.HasPrefix(field, "origin_")) && !strings.HasSuffix(field, "_X-Request-Id") {
				t.Errorf("the access log has the field %s", field)
			}
		}
	}
}

func accessLines(t *testing.T, file string) []map[string]any {
	t.Helper()
	f, err := os.Open(file)
	check.OK(t, err)
	defer f.Close()
	var lines []map[string]any
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		var line map[string]any
		check.OK(t, json.Unmarshal(scanner.Bytes(), &line))
		lines = append(lines, line)
	}
	check.OK(t, scanner.Err())
	return lines
}
