package stack

import (
	"context"
	"fmt"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/sluicegate/sluice/emulators/stack/internal/mount"
)

const (
	privateSuffix = ".key"
	publicSuffix  = ".pub"

	allKeys    = "session-keys"        // for session, which signs
	publicKeys = "session-public-keys" // for every other function
)

type mounted struct {
	secret, dir string
	entry       func(name string) bool
}

func mounts() []mounted {
	all := func(string) bool { return true }
	return []mounted{
		{checkerSecret, checkerSecret, all},
		{sessionSecret, allKeys, all},
		{sessionSecret, publicKeys, func(name string) bool { return strings.HasSuffix(name, publicSuffix) }},
	}
}

// mountSecrets mounts the Secrets and updates them until life ends. As with a kubelet, a
// deleted Secret stays mounted.
func (s *Stack) mountSecrets(life context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(s.api, 0, informers.WithNamespace(systemNamespace))
	informer := factory.Core().V1().Secrets().Informer()
	handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    s.mount,
		UpdateFunc: func(_, now any) { s.mount(now) },
	})
	if err != nil {
		return fmt.Errorf("watch Secrets: %w", err)
	}
	factory.Start(life.Done())
	s.tasks.Go(func() {
		<-life.Done()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(life.Done(), handler.HasSynced) {
		return fmt.Errorf("watch Secrets: %w", context.Cause(life))
	}
	return nil
}

// mount is called only by the informer's goroutine.
func (s *Stack) mount(object any) {
	secret, ok := object.(*core.Secret)
	if !ok {
		return
	}
	for _, m := range mounts() {
		if m.secret != secret.Name {
			continue
		}
		files := map[string][]byte{}
		for name, value := range secret.Data {
			if m.entry(name) {
				files[name] = value
			}
		}
		if err := mount.Write(s.path("secrets/"+m.dir), files); err != nil {
			s.log.Error("mount secret failed", "secret", secret.Name, "error", err)
		}
	}
}
