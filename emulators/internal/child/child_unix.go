//go:build unix && !linux

package child

import "syscall"

// attributes cannot tie a child to its parent: only Linux can.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
