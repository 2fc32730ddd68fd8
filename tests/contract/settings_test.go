package contract

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/shared/identity"
	"github.com/sluicegate/sluice/tests/check"
	"github.com/sluicegate/sluice/tests/clustertest"
	"github.com/sluicegate/sluice/tests/storetest"
)

// Paths of mounted files in a function's root directory.
const (
	secretsDir     = "/var/openfaas/secrets"
	tlsDir         = "/var/run/sluice/tls"
	kubeconfigFile = "/var/run/sluice/kubeconfig"
	buildsToken    = "0123456789abcdef0123456789abcdef"
)

// settings returns the stack file's settings with the addresses of this test's store and cluster.
// It also mounts the files.
func settings(t *testing.T, function string) map[string]string {
	t.Helper()
	s := stackFile(t).Functions[function].Environment
	switch function {
	case "checker":
		s = map[string]string{"POD_NAME": "checker-0", "TLS_DIR": tlsDir}
	case "standin":
		s = map[string]string{"CHECKERS_URL": "https://127.0.0.1:9", "TLS_DIR": tlsDir}
	}
	all := map[string]string{}
	for key, value := range s {
		all[key] = value
	}
	project := storetest.Project(t)
	kubeconfig, err := os.ReadFile(clustertest.Kubeconfig(t))
	check.OK(t, err)
	mount(t, function, kubeconfigFile, kubeconfig)
	mount(t, function, secretsDir+"/sluice-builds-token", []byte(buildsToken))
	mount(t, function, secretsDir+"/sluice-console-token", []byte(buildsToken))
	for name, content := range sessionKeys(t) {
		mount(t, function, secretsDir+"/"+name, content)
	}
	mount(t, function, tlsDir+"/tls.crt", serverCertificate(t).certificate)
	mount(t, function, tlsDir+"/tls.key", serverCertificate(t).key)
	for key, value := range map[string]string{
		"HOST": "127.0.0.1", "PORT": "0", "METRICS_PORT": "", "GOOGLE_CLOUD_PROJECT": project, "KUBECONFIG": kubeconfigFile,
		"FIRESTORE_EMULATOR_HOST": os.Getenv("FIRESTORE_EMULATOR_HOST"), "INGRESS_URL": "http://127.0.0.1:9",
	} {
		all[key] = value
	}
	return all
}

var mounting sync.Mutex

func mount(t *testing.T, function, path string, content []byte) {
	t.Helper()
	mounting.Lock()
	defer mounting.Unlock()
	file := filepath.Join(shipped[function].root, path)
	if _, err := os.Stat(file); err == nil {
		return
	}
	check.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	check.OK(t, os.WriteFile(file, content, 0o644))
}

func sessionKeys(t *testing.T) map[string][]byte {
	t.Helper()
	keys, err := drawSessionKeys()
	check.OK(t, err)
	return keys
}

var drawSessionKeys = sync.OnceValues(func() (map[string][]byte, error) {
	dir := filepath.Join(programs.dir, "keys")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := identity.WriteKeyPair(dir, "2026-01-01"); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range []string{"2026-01-01.pub", "2026-01-01.key"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files[name] = content
	}
	return files, nil
})

type pair struct{ certificate, key []byte }

func serverCertificate(t *testing.T) pair {
	t.Helper()
	p, err := drawCertificate()
	check.OK(t, err)
	return p
}

var drawCertificate = sync.OnceValues(func() (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "checker"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return pair{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}, nil
})
