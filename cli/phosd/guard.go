package main

import (
	"log/slog"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
)

// openGuard removes what a killed phosd has left, and makes a guard where the settings want one;
// nil: they do not.
func openGuard(settings config.Config, log *slog.Logger) (made *guard.Guard, end func() error, err error) {
	if err := guard.Sweep(); err != nil {
		log.Warn("what another phosd has kept of the GPUs stays", "error", err)
	}
	if !settings.Gpus.Exclusive {
		return nil, func() error { return nil }, nil
	}
	if made, err = guard.Open(guard.Options{Log: log}); err != nil {
		return nil, nil, err
	}
	return made, made.Close, nil
}
