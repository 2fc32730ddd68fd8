package cluster

import (
	"net"
	"path/filepath"
	"strconv"
)

// The node's addresses. The host reaches all of them over one link: the pods' and the
// services' through the node, which is their gateway.
const (
	hostIP     = "10.88.0.1" // of this machine, as the node and pods see it
	nodeIP     = "10.88.0.2"
	linkBits   = "/30"
	podRange   = "10.244.0.0/24"
	services   = "10.96.0.0/16"
	apiIP      = "10.96.0.1" // the first of services: Service "kubernetes"
	dnsIP      = "10.96.0.10"
	hostLink   = "sluice0" // this machine's end
	nodeLink   = "node0"
	nodeName   = "node"
	cgroupName = "sluice-cluster"
)

// Ports on the node's address.
const (
	ingressPort   = 80
	secondPort    = 443 // the ingress over TLS
	etcdPort      = 2379
	etcdPeerPort  = 2380
	registryPort  = 5000
	apiPort       = 6443
	firestorePort = 8081
	gitPort       = 8082
	whoPort       = 8083 // tells a pod who it is
)

// exampleRegistry is the registry that examples and tests name; every image in it is the
// echo, whatever its name and tag.
const exampleRegistry = "registry.example"

// at is an address of the node.
func at(port int) string { return net.JoinHostPort(nodeIP, strconv.Itoa(port)) }

// Options of a cluster.
type Options struct {
	Root string // of the repository
	Dir  string // for everything the cluster writes, e.g. "/src/sluice/.local/cluster"
}

func (o Options) path(parts ...string) string {
	return filepath.Join(append([]string{o.Dir}, parts...)...)
}

func (o Options) logs() string           { return o.path("logs") }
func (o Options) log(name string) string { return o.path("logs", name+".log") }
func (o Options) pki(name string) string { return o.path("pki", name) }
func (o Options) etc(name string) string { return o.path("etc", name) }
func (o Options) kubeconfig() string     { return o.path("kubeconfig") }

// stateDirs are what belongs to one life of the cluster. The rest stays: the registry,
// git repositories and the logs of the last life.
func (o Options) stateDirs() []string {
	var dirs []string
	for _, name := range []string{"etcd", "kubelet", "containerd", "pki", "etc"} {
		dirs = append(dirs, o.path(name))
	}
	return dirs
}
