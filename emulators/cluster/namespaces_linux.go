package cluster

import (
	"fmt"
	"os"
	"syscall"
)

// readyFD is the pipe on which the node is told that its link is there.
const readyFD = 3

// namespaces are the node's own.
func namespaces() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{
		Setsid:     true, // a terminal that goes away leaves it alone
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}, nil
}

// mountAll parts the node's mounts from the machine's, and gives it the folders that
// Kubernetes and containerd write to wherever they are told to be.
func mountAll() error {
	for _, m := range []struct {
		what, on, kind string
		flags          uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{"", "/", "", syscall.MS_REC | syscall.MS_SHARED}, // among themselves, as the kubelet wants it
		{"proc", "/proc", "proc", 0},
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
	} {
		if err := syscall.Mount(m.what, m.on, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.on, err)
		}
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil { //nolint:gosec // as every machine has it
		return fmt.Errorf("make /run/netns: %w", err)
	}
	return nil
}
