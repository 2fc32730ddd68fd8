package cluster

import (
	"net"
	"path/filepath"
	"strconv"
)

// The node is the gateway from this machine to pods and Services.
const (
	hostIP     = "10.88.0.1" // address of this machine as seen by the node and pods
	nodeIP     = "10.88.0.2"
	linkBits   = "/30"
	podRange   = "10.244.0.0/24"
	services   = "10.96.0.0/16"
	apiIP      = "10.96.0.1" // Service "kubernetes"
	dnsIP      = "10.96.0.10"
	hostLink   = "sluice0"
	nodeLink   = "node0"
	nodeName   = "node"
	cgroupName = "sluice-cluster"
)

const (
	ingressPort   = 80
	secondPort    = 443 // ingress with TLS
	etcdPort      = 2379
	etcdPeerPort  = 2380
	registryPort  = 5000
	apiPort       = 6443
	firestorePort = 8081
	gitPort       = 8082
	identityPort  = 8083 // identityServer
)

// exampleRegistry is the registry in examples and tests. All its images are the echo app.
const exampleRegistry = "registry.example"

func at(port int) string { return net.JoinHostPort(nodeIP, strconv.Itoa(port)) }

// Options configure a cluster.
type Options struct {
	Root string
	Dir  string
}

func (o Options) path(parts ...string) string {
	return filepath.Join(append([]string{o.Dir}, parts...)...)
}

func (o Options) logs() string           { return o.path("logs") }
func (o Options) log(name string) string { return o.path("logs", name+".log") }
func (o Options) pki(name string) string { return o.path("pki", name) }
func (o Options) etc(name string) string { return o.path("etc", name) }
func (o Options) kubeconfig() string     { return o.path("kubeconfig") }

func (o Options) stateDirs() []string {
	var dirs []string
	for _, name := range []string{"etcd", "kubelet", "containerd", "pki", "etc"} {
		dirs = append(dirs, o.path(name))
	}
	return dirs
}
