package main

import (
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/criu"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/internal/linux/freezer"
)

// openCPU returns the CPU half for phosd, which uses it as a ckpt.CPU.
func openCPU(settings config.Config) *criu.CPU {
	sessions := filepath.Join(settings.RuntimeDir, "sessions") + "/"
	return criu.New(criu.Options{
		Roles: []string{"/proc/self/exe"}, Program: criu.Find(settings.Criu),
		Ours:      func(path string) bool { return strings.HasPrefix(path, sessions) || path == settings.Socket },
		Knowledge: filepath.Join(settings.RuntimeDir, "criu"),
	})
}

// openCgroups prepares the cgroups that freeze programs. If that fails, programs run but cannot be
// saved.
func openCgroups(settings config.Config, log *slog.Logger) (release func()) {
	closeCgroups, err := freezer.Provide(filepath.Join(settings.RuntimeDir, "cgroup"))
	if err != nil {
		log.Warn("cannot freeze programs: checkpoints will fail", "error", err)
		return func() {}
	}
	return func() {
		if err := closeCgroups(); err != nil {
			log.Warn("cannot leave the cgroups", "error", err)
		}
	}
}
