// Command kube contains etcd and kube-apiserver. The first argument selects the server.
package main

import (
	"os"
	_ "time/tzdata" // for the time zones of CronJobs

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	switch name := append(os.Args, "")[1]; name {
	case "etcd":
		etcdmain.Main(os.Args[1:])
	case "kube-apiserver":
		os.Args = os.Args[1:]
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	default:
		_, _ = os.Stderr.WriteString("no such program: " + name + "\n")
		os.Exit(2)
	}
}
