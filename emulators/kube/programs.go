package kube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/sluicegate/sluice/emulators/internal/child"
)

func startEtcd(ctx context.Context, o Options, program string) (*child.Service, error) {
	data := filepath.Join(o.Dir, "etcd")
	// The key that encrypts the previous data is lost.
	if err := os.RemoveAll(data); err != nil {
		return nil, fmt.Errorf("empty etcd: %w", err)
	}
	client := fmt.Sprintf("http://127.0.0.1:%d", o.EtcdPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", o.EtcdPeerPort)
	command := child.Command{
		Path: program,
		Args: []string{
			"etcd", "--name=local", "--data-dir=" + data, "--unsafe-no-fsync",
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=local=" + peer,
			"--log-level=warn",
		},
		Env:     append(os.Environ(), o.Env...),
		LogFile: filepath.Join(o.LogDir, "etcd.log"),
	}
	return child.Run(ctx, "etcd", startLimit, func() (child.Command, child.Check) {
		return command, func(ctx context.Context) error { return child.Get(ctx, http.DefaultClient, client+"/health") }
	})
}

func startAPI(ctx context.Context, o Options, program string) (*child.Service, error) {
	client, err := adminClient(filepath.Join(o.Dir, "kubeconfig"))
	if err != nil {
		return nil, err
	}
	command := child.Command{
		Path:    program,
		Args:    apiArguments(o),
		Env:     append(os.Environ(), o.Env...),
		LogFile: filepath.Join(o.LogDir, "kube-apiserver.log"),
	}
	ready := fmt.Sprintf("https://127.0.0.1:%d/readyz", o.Port)
	return child.Run(ctx, "kube-apiserver", startLimit, func() (child.Command, child.Check) {
		return command, func(ctx context.Context) error { return child.Get(ctx, client, ready) }
	})
}

func apiArguments(o Options) []string {
	arguments := []string{
		"kube-apiserver",
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", o.EtcdPort),
		fmt.Sprintf("--secure-port=%d", o.Port),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		"--tls-cert-file=" + o.pki(certificateFile), "--tls-private-key-file=" + o.pki(keyFile),
		"--token-auth-file=" + o.pki(tokenFile), "--anonymous-auth=false",
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=" + ServiceRange(o.Port).String(),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + o.pki(serviceAccountFile),
		"--service-account-signing-key-file=" + o.pki(serviceAccountFile),
		"--encryption-provider-config=" + o.pki(encryptionFile),
		// Both are disabled because an endpoint cannot have a loopback address, and because no
		// controller creates service accounts.
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount",
		"--shutdown-delay-duration=0s",
	}
	if o.AuditLog != "" {
		arguments = append(arguments, "--audit-policy-file="+o.pki(auditFile), "--audit-log-path="+o.AuditLog, "--audit-log-mode=blocking")
	}
	return arguments
}

func adminClient(kubeconfig string) (*http.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("create a client of the API server: %w", err)
	}
	return client, nil
}
