package stack

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// functionsKubeconfig is the file by which functions find the API server.
func (s *Stack) functionsKubeconfig() string {
	if s.o.APIServer == "" {
		return s.path("kube/kubeconfig")
	}
	return s.path("kube/kubeconfig-functions")
}

// writeFunctionsKubeconfig writes that file where functions have an address of
// their own to the API server: all but the address is as in the file at from.
func (s *Stack) writeFunctionsKubeconfig(from string) error {
	if s.o.APIServer == "" {
		return nil
	}
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + s.o.APIServer
	}
	if err := clientcmd.WriteToFile(*config, s.functionsKubeconfig()); err != nil {
		return fmt.Errorf("write the functions' kubeconfig: %w", err)
	}
	return nil
}
