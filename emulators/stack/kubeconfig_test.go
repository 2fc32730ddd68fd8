package stack

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// TestFunctionsKubeconfig: functions that have an address of their own to the API
// server find it there, as the same user and with the same authority.
func TestFunctionsKubeconfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	config := api.NewConfig()
	config.Clusters["local"] = &api.Cluster{Server: "https://127.0.0.1:8082", CertificateAuthorityData: []byte("ca")}
	config.AuthInfos["local"] = &api.AuthInfo{ClientCertificateData: []byte("certificate"), ClientKeyData: []byte("key")}
	config.Contexts["local"] = &api.Context{Cluster: "local", AuthInfo: "local"}
	config.CurrentContext = "local"
	own := filepath.Join(dir, "kube", "kubeconfig")
	if err := clientcmd.WriteToFile(*config, own); err != nil {
		t.Fatal(err)
	}
	plain := &Stack{o: Options{Dir: dir}}
	if err := plain.writeFunctionsKubeconfig(own); err != nil || plain.functionsKubeconfig() != own {
		t.Errorf("without an address of their own: %s, %v", plain.functionsKubeconfig(), err)
	}
	proxied := &Stack{o: Options{Dir: dir, APIServer: "127.0.0.1:9999"}}
	if err := proxied.writeFunctionsKubeconfig(own); err != nil {
		t.Fatal(err)
	}
	want, err := clientcmd.BuildConfigFromFlags("", own)
	if err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.BuildConfigFromFlags("", proxied.functionsKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	want.Host = "https://127.0.0.1:9999"
	if diff := cmp.Diff(want.String(), got.String()); diff != "" || got.Host != want.Host {
		t.Errorf("-want +got:\n%s", diff)
	}
}
