package kube

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// AuditPolicy logs the calls of service accounts, without bodies.
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: ["system:serviceaccounts"]
  - level: None
`

const (
	certificateFile    = "server.crt"
	keyFile            = "server.key"
	serviceAccountFile = "service-account.key"
	tokenFile          = "tokens.csv"
	encryptionFile     = "encryption.yaml"
	auditFile          = "audit.yaml"
)

func (o Options) pki(file string) string { return filepath.Join(o.Dir, "pki", file) }

// writeFiles writes the files of one start. The certificate is self-signed, and the
// administrator has a token.
func (o Options) writeFiles(url string) error {
	for _, dir := range []string{o.pki(""), o.LogDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("create a directory of the API server: %w", err)
		}
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{ServiceRange(o.Port).Addr().Next().AsSlice()},
		[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"})
	if err != nil {
		return fmt.Errorf("generate the API server's certificate: %w", err)
	}
	serviceAccountKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("generate the key of service accounts: %w", err)
	}
	token := rand.Text()
	for name, text := range map[string]string{
		certificateFile:    string(certificate),
		keyFile:            string(key),
		serviceAccountFile: string(serviceAccountKey),
		tokenFile:          token + `,admin,admin,"system:masters"`,
		encryptionFile:     cmp.Or(string(o.Encryption), Encryption()),
		auditFile:          AuditPolicy,
	} {
		if err := os.WriteFile(o.pki(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return writeKubeconfig(filepath.Join(o.Dir, "kubeconfig"), url, certificate, token)
}

// Encryption returns an EncryptionConfiguration with a new random key.
func Encryption() string {
	key := make([]byte, 32)
	rand.Read(key) // never fails
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

func writeKubeconfig(file, url string, ca []byte, token string) error {
	const name = "sluice-local"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &api.AuthInfo{Token: token}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}
