package main

import (
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/criu"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/internal/linux/freezer"
)

// openCPU is for phosd: package daemon knows the CPU half only as an interface (ckpt.CPU).
func openCPU(settings config.Config) *criu.CPU {
	sessions := filepath.Join(settings.RuntimeDir, "sessions") + "/"
	return criu.New(criu.Options{
		Roles: []string{"/proc/self/exe"}, Program: criu.Find(settings.Criu),
		Ours:      func(path string) bool { return strings.HasPrefix(path, sessions) || path == settings.Socket },
		Knowledge: filepath.Join(settings.RuntimeDir, "criu"),
	})
}

// openCgroups sees to it that programs can be frozen. Where they cannot, they run all the same,
// and a checkpoint says why.
func openCgroups(settings config.Config, log *slog.Logger) (release func()) {
	back, err := freezer.Provide(filepath.Join(settings.RuntimeDir, "cgroup"))
	if err != nil {
		log.Warn("no program can be saved", "error", err)
		return func() {}
	}
	return func() {
		if err := back(); err != nil {
			log.Warn("leave the cgroups", "error", err)
		}
	}
}
