package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	auth "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	tokenLifetime = time.Hour
	tokenRenewal  = 20 * time.Minute // clients reread the file every minute
	tokenCall     = 10 * time.Second
)

// startAccounts writes a kubeconfig for each function that uses the Kubernetes API, and renews
// the tokens until life ends.
func (s *Stack) startAccounts(ctx, life context.Context) error {
	for _, f := range functions() {
		if !f.cluster {
			continue
		}
		if err := s.renewToken(ctx, f); err != nil {
			return err
		}
		if err := s.writeAccount(f); err != nil {
			return err
		}
	}
	s.tasks.Go(func() { s.renewTokens(life) })
	return nil
}

func (s *Stack) renewTokens(life context.Context) {
	tick := time.NewTicker(tokenRenewal)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		for _, f := range functions() {
			if !f.cluster {
				continue
			}
			if err := s.renewToken(life, f); err != nil && life.Err() == nil {
				s.log.Error("renew token failed", "function", f.name, "error", err)
			}
		}
	}
}

func (s *Stack) renewToken(ctx context.Context, f function) error {
	ctx, cancel := context.WithTimeout(ctx, tokenCall)
	defer cancel()
	seconds := int64(tokenLifetime / time.Second)
	request := &auth.TokenRequest{Spec: auth.TokenRequestSpec{ExpirationSeconds: &seconds}}
	got, err := s.api.CoreV1().ServiceAccounts(systemNamespace).CreateToken(ctx, f.name, request, meta.CreateOptions{})
	if err != nil {
		return fmt.Errorf("request a token for %s: %w", f.name, err)
	}
	file := s.tokenFile(f)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("write the token of %s: %w", f.name, err)
	}
	return replaceFile(file, []byte(got.Status.Token))
}

func (s *Stack) writeAccount(f function) error {
	admin, err := clientcmd.LoadFromFile(s.path("kube/kubeconfig"))
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config := api.NewConfig()
	config.Clusters = admin.Clusters
	for _, cluster := range config.Clusters {
		if s.o.APIServer != "" {
			cluster.Server = "https://" + s.o.APIServer
		}
	}
	config.AuthInfos[f.name] = &api.AuthInfo{TokenFile: s.tokenFile(f)}
	for cluster := range admin.Clusters {
		config.Contexts[f.name] = &api.Context{Cluster: cluster, AuthInfo: f.name}
	}
	config.CurrentContext = f.name
	if err := clientcmd.WriteToFile(*config, s.accountFile(f)); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", f.name, err)
	}
	return nil
}

func (s *Stack) tokenFile(f function) string { return s.path("secrets/accounts/" + f.name + "/token") }

func (s *Stack) accountFile(f function) string {
	return s.path("secrets/accounts/" + f.name + "/kubeconfig")
}
