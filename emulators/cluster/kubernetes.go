package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluicegate/sluice/emulators/kube"
)

type daemon struct {
	name    string
	program string
	args    []string
	url     string // health check; "" does not wait
}

const (
	kubeletFile    = "kubelet.json"
	proxyFile      = "kube-proxy.json"
	auditFile      = "audit.yaml"
	encryptionFile = "encryption.yaml"
	resolvFile     = "resolv.conf"
)

func daemons(o Options, programs Programs) []daemon {
	kubernetes := programs["kube"]
	named := func(name string, args ...string) daemon {
		return daemon{name: name, program: kubernetes, args: append([]string{name}, args...)}
	}
	etcd := "http://" + at(etcdPort)
	api := named("kube-apiserver", o.apiArguments(etcd)...)
	api.url = "https://" + at(apiPort) + "/readyz"
	const clientSpeed, clientBurst = "--kube-api-qps=200", "--kube-api-burst=400"
	return []daemon{
		{name: "containerd", program: "/usr/bin/containerd", args: []string{"--config=" + o.etc(containerdFile)}},
		{
			name: "etcd", program: programs["etcd"], url: etcd + "/health",
			args: []string{
				"etcd", "--data-dir=" + o.path("etcd"), "--unsafe-no-fsync", "--log-level=warn",
				"--listen-client-urls=" + etcd, "--advertise-client-urls=" + etcd,
				fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", etcdPeerPort),
			},
		},
		api,
		named("kube-controller-manager", "--kubeconfig="+o.etc("controller-manager"), "--use-service-account-credentials",
			"--service-account-private-key-file="+o.pki("service-accounts.key"), "--root-ca-file="+o.pki("ca.crt"),
			"--cluster-signing-cert-file="+o.pki("ca.crt"), "--cluster-signing-key-file="+o.pki("ca.key"), "--leader-elect=false", clientSpeed, clientBurst),
		named("kube-scheduler", "--kubeconfig="+o.etc("scheduler"), "--leader-elect=false", clientSpeed, clientBurst),
		named("kubelet", "--config="+o.etc(kubeletFile), "--kubeconfig="+o.etc("kubelet"), "--root-dir="+o.path("kubelet"),
			"--hostname-override="+nodeName, "--node-ip="+nodeIP),
		named("kube-proxy", "--config="+o.etc(proxyFile)),
	}
}

func (o Options) apiArguments(etcd string) []string {
	return []string{
		"--etcd-servers=" + etcd, "--advertise-address=" + nodeIP, "--bind-address=" + nodeIP, fmt.Sprintf("--secure-port=%d", apiPort),
		"--tls-cert-file=" + o.pki("apiserver.crt"), "--tls-private-key-file=" + o.pki("apiserver.key"), "--client-ca-file=" + o.pki("ca.crt"),
		"--service-account-key-file=" + o.pki("service-accounts.crt"), "--service-account-signing-key-file=" + o.pki("service-accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-cluster-ip-range=" + services,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged",
		"--encryption-provider-config=" + o.etc(encryptionFile),
		"--audit-policy-file=" + o.etc(auditFile), "--audit-log-path=" + o.log("kube-audit"),
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + o.pki("admin.crt"), "--kubelet-client-key=" + o.pki("admin.key"),
		"--requestheader-client-ca-file=" + o.pki("ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + o.pki("front-proxy-client.crt"), "--proxy-client-key-file=" + o.pki("front-proxy-client.key"),
	}
}

func (o Options) writeKubernetes() error {
	files := map[string]any{kubeletFile: o.kubeletConfig(), proxyFile: o.proxyConfig()}
	for name, config := range files {
		text, err := json.Marshal(config)
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		files[name] = string(text)
	}
	files[auditFile], files[encryptionFile] = kube.AuditPolicy, kube.Encryption()
	files[resolvFile] = "nameserver " + nodeIP + "\n" // no server: outside names do not resolve
	for name, text := range files {
		if err := os.WriteFile(o.etc(name), fmt.Append(nil, text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	for _, name := range []string{"controller-manager", "scheduler", "kubelet", "kube-proxy"} {
		if err := o.writeKubeconfig(o.etc(name), name); err != nil {
			return err
		}
	}
	return o.writeKubeconfig(o.kubeconfig(), "admin")
}

type object = map[string]any

// kubeletConfig returns a configuration that permits swap, cgroups v1 and little free disk space.
func (o Options) kubeletConfig() object {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"failCgroupV1": false, "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + cgroupName, "failSwapOn": false,
		"containerRuntimeEndpoint": "unix://" + containerdSocket, "address": nodeIP,
		"tlsCertFile": o.pki("kubelet-server.crt"), "tlsPrivateKeyFile": o.pki("kubelet-server.key"),
		"authentication": object{"anonymous": object{"enabled": false}, "x509": object{"clientCAFile": o.pki("ca.crt")}, "webhook": object{"enabled": true}},
		"authorization":  object{"mode": "Webhook"},
		"clusterDNS":     []string{dnsIP}, "clusterDomain": "cluster.local", "resolvConf": o.etc(resolvFile),
		"maxPods": 200, "kubeAPIQPS": 100, "kubeAPIBurst": 200, "serializeImagePulls": false, "registryPullQPS": 0,
		"evictionHard":                  object{"memory.available": "200Mi", "nodefs.available": "2%", "imagefs.available": "2%"},
		"imageGCHighThresholdPercent":   100,
		"localStorageCapacityIsolation": false,
		"volumePluginDir":               o.path("kubelet", "plugins-exec"), "podLogsDir": o.path("logs", "pods"),
	}
}

// proxyConfig returns a configuration that leaves the machine's connection tracking unchanged.
func (o Options) proxyConfig() object {
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode": "nftables", "hostnameOverride": nodeName, "clusterCIDR": podRange,
		"clientConnection": object{"kubeconfig": o.etc("kube-proxy")},
		"conntrack":        object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

const (
	containerdFile   = "containerd.toml"
	containerdSocket = "/run/containerd/containerd.sock"
	pauseImage       = "platform/pause"
)

// containerdConfig never lowers oom_score_adj, which may not be permitted, and discards layers
// after unpacking.
const containerdConfig = `version = 2
root = "%[1]s/containerd/root"
state = "/run/containerd/state"
[grpc]
  address = "` + containerdSocket + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s/` + pauseImage + `:latest"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    discard_unpacked_layers = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%[1]s/etc/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%[1]s/etc/certs.d"
`

const cniConfig = `{"cniVersion":"1.0.0","name":"pods","plugins":[
 {"type":"ptp","ipMasq":false,"ipam":{"type":"host-local","dataDir":"/run/cni","ranges":[[{"subnet":"` + podRange + `"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
`

// writeContainerd makes the cluster's registry the mirror of all others.
func (o Options) writeContainerd() error {
	files := map[string]string{
		containerdFile:         fmt.Sprintf(containerdConfig, o.Dir, at(registryPort)),
		"cni/10-pods.conflist": cniConfig,
	}
	for _, host := range []string{at(registryPort), "docker.io", exampleRegistry} {
		files["certs.d/"+host+"/hosts.toml"] = fmt.Sprintf("server = \"http://%[1]s\"\n[host.\"http://%[1]s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", at(registryPort))
	}
	for name, text := range files {
		file := o.etc(name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}
