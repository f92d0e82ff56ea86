package main

import (
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu"
	"github.com/phos-gpu/phos/daemon/config"
)

// openCPU is for phosd: package daemon knows the CPU half only as an interface.
func openCPU(settings config.Config) ckpt.CPU {
	sessions := filepath.Join(settings.RuntimeDir, "sessions") + "/"
	return criu.New(criu.Options{
		Roles: []string{"/proc/self/exe"}, Program: criu.Find(settings.Criu),
		Ours: func(path string) bool { return strings.HasPrefix(path, sessions) || path == settings.Socket },
	})
}
