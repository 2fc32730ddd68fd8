package cluster

import (
	"fmt"
	"os"
	"syscall"
)

// readyFD is a pipe on which the parent reports that the link exists.
const readyFD = 3

func namespaces() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{
		Setsid:     true, // survives the terminal
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}, nil
}

// mountAll separates the node's mounts from the machine's, and adds the folders to which
// Kubernetes and containerd always write.
func mountAll() error {
	for _, m := range []struct {
		what, on, kind string
		flags          uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"", "/", "", syscall.MS_REC | syscall.MS_SHARED}, // as the kubelet requires
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
	} {
		if err := syscall.Mount(m.what, m.on, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.on, err)
		}
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil { //nolint:gosec // the usual mode
		return fmt.Errorf("create /run/netns: %w", err)
	}
	return nil
}
