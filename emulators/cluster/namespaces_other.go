//go:build unix && !linux

package cluster

import (
	"errors"
	"syscall"
)

const readyFD = 3

var errNoLinux = errors.New("a node needs Linux: its namespaces and control groups") //nolint:gochecknoglobals // an error

func namespaces() (*syscall.SysProcAttr, error) { return nil, errNoLinux }
func mountAll() error                           { return errNoLinux }
