//go:build unix && !linux

package cluster

import (
	"errors"
	"syscall"
)

const readyFD = 3

var errNoLinux = errors.New("a node needs the namespaces and control groups of Linux") //nolint:gochecknoglobals // an error

func namespaces() (*syscall.SysProcAttr, error) { return nil, errNoLinux }
func mountAll() error                           { return errNoLinux }
