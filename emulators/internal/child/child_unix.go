//go:build unix && !linux

package child

import "syscall"

// attributes does not end a child with its parent: only Linux supports that.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
