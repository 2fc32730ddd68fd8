package kube

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// auditPolicy has the API server write down what service accounts do: who, what and
// whether they might, and no bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
  - level: None
`

// files are the ones that the API server reads.
type files struct {
	clientCA, certificate, key, serviceAccountKey, encryption, audit string
}

// writeFiles makes the directories, certificates and configuration of one start.
func (o Options) writeFiles(url string) (files, error) {
	for _, dir := range []string{filepath.Join(o.Dir, "pki"), o.LogDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return files{}, fmt.Errorf("make a place for the API server: %w", err)
		}
	}
	ca, err := newAuthority(time.Now()) //nolint:forbidigo // the start of this process's server
	if err != nil {
		return files{}, err
	}
	serving, err := ca.server(net.IPv4(127, 0, 0, 1), o.ServiceRange.Addr().Next().AsSlice())
	if err != nil {
		return files{}, err
	}
	admin, err := ca.client("admin", "system:masters")
	if err != nil {
		return files{}, err
	}
	_, serviceAccountKey, err := newKey()
	if err != nil {
		return files{}, err
	}
	f := files{
		clientCA:          filepath.Join(o.Dir, "pki", "ca.crt"),
		certificate:       filepath.Join(o.Dir, "pki", "server.crt"),
		key:               filepath.Join(o.Dir, "pki", "server.key"),
		serviceAccountKey: filepath.Join(o.Dir, "pki", "service-account.key"),
		encryption:        filepath.Join(o.Dir, "pki", "encryption.yaml"),
		audit:             filepath.Join(o.Dir, "pki", "audit.yaml"),
	}
	for name, text := range map[string]string{
		f.clientCA:          string(ca.certificate),
		f.certificate:       string(serving.certificate),
		f.key:               string(serving.key),
		f.serviceAccountKey: string(serviceAccountKey),
		f.encryption:        cmp.Or(string(o.Encryption), encryption()),
		f.audit:             auditPolicy,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return files{}, fmt.Errorf("write %s: %w", filepath.Base(name), err)
		}
	}
	return f, writeKubeconfig(filepath.Join(o.Dir, "kubeconfig"), url, ca.certificate, admin)
}

// encryption tells the API server to encrypt Secrets with a new random key. The
// second provider reads what is not encrypted; nothing is.
func encryption() string {
	key := make([]byte, 32)
	rand.Read(key) // it never fails
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
  - resources: [secrets]
    providers:
      - secretbox:
          keys:
            - name: local
              secret: %s
      - identity: {}
`, base64.StdEncoding.EncodeToString(key))
}

func writeKubeconfig(file, url string, ca []byte, user pair) error {
	const name = "sluice-local"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: user.certificate, ClientKeyData: user.key}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}
