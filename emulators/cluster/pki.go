package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const certificateLife = 365 * 24 * time.Hour

type identity struct {
	file, name, group string
	ips, hosts        []string
}

// identities returns the names to which RBAC's default roles are bound.
func identities() []identity {
	return []identity{
		{
			file: "apiserver", name: "kube-apiserver", ips: []string{nodeIP, "127.0.0.1", apiIP},
			hosts: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "localhost"},
		},
		{file: "kubelet-server", name: nodeName, ips: []string{nodeIP}, hosts: []string{nodeName}},
		{file: "admin", name: "admin", group: "system:masters"},
		{file: "controller-manager", name: "system:kube-controller-manager"},
		{file: "scheduler", name: "system:kube-scheduler"},
		{file: "kubelet", name: "system:node:" + nodeName, group: "system:nodes"},
		{file: "kube-proxy", name: "system:kube-proxy"},
		{file: "front-proxy-client", name: "front-proxy-client"},
	}
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	now         time.Time
}

func (o Options) writePKI(now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate a key: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "sluice-cluster"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	a := authority{key: key, now: now}
	if a.certificate, err = a.write(o, "ca", template, template, key); err != nil {
		return err
	}
	for _, id := range identities() {
		if err := a.issue(o, id); err != nil {
			return err
		}
	}
	return a.issue(o, identity{file: "service-accounts", name: "service-accounts"})
}

func (a authority) issue(o Options, id identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate a key: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: id.name}, DNSNames: id.hosts, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if id.group != "" {
		template.Subject.Organization = []string{id.group}
	}
	for _, ip := range id.ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	_, err = a.write(o, id.file, template, a.certificate, key)
	return err
}

func (a authority) write(o Options, file string, template, parent *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, fmt.Errorf("generate a serial number: %w", err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, a.now.Add(-time.Hour), a.now.Add(certificateLife)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", file, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key of %s: %w", file, err)
	}
	for name, block := range map[string]*pem.Block{
		file + ".crt": {Type: "CERTIFICATE", Bytes: der}, file + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(o.pki(name), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	return x509.ParseCertificate(der)
}

// writeKubeconfig includes the keys, so that the file can be copied.
func (o Options) writeKubeconfig(file, identity string) error {
	var text [3][]byte
	for i, name := range []string{"ca.crt", identity + ".crt", identity + ".key"} {
		var err error
		if text[i], err = os.ReadFile(o.pki(name)); err != nil {
			return fmt.Errorf("write the kubeconfig of %s: %w", identity, err)
		}
	}
	const name = "sluice-cluster"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: "https://" + at(apiPort), CertificateAuthorityData: text[0]}
	config.AuthInfos[name] = &api.AuthInfo{ClientCertificateData: text[1], ClientKeyData: text[2]}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", identity, err)
	}
	return nil
}
