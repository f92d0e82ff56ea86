package main

import (
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/criu"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// openCPU returns the CPU half. Package phosd knows it only as an interface (ckpt.CPU).
func openCPU(settings config.Config) *criu.CPU {
	sessions := filepath.Join(settings.RuntimeDir, "sessions") + "/"
	return criu.New(criu.Options{
		Roles: []string{proc.OwnExecutable}, Program: criu.Find(settings.Criu),
		Ours:        func(path string) bool { return strings.HasPrefix(path, sessions) || path == settings.Socket },
		KernelCache: filepath.Join(settings.RuntimeDir, "criu"), LogJSON: settings.Log.Format == config.LogJSON,
	})
}

// provideCgroups prepares the cgroups for freezing programs. If that fails, programs run all the
// same, and checkpoints report why.
func provideCgroups(settings config.Config, log *slog.Logger) (release func()) {
	undo, err := freezer.MountCgroups(filepath.Join(settings.RuntimeDir, "cgroup"))
	if err != nil {
		log.Warn("freezing not available; checkpoints will fail", "error", err)
		return func() {}
	}
	return func() {
		if err := undo(); err != nil {
			log.Warn("remove cgroups", "error", err)
		}
	}
}
