//go:build unix && !linux

package child

import "syscall"

// attributes can't tie a child to its parent's life here: only Linux can.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
