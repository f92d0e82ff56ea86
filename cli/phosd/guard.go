package main

import (
	"log/slog"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
)

// openGuard detaches the guard of a killed phosd, and opens one if gpus.exclusive is set; else it
// returns nil.
func openGuard(settings config.Config, log *slog.Logger) (opened *guard.Guard, closeGuard func() error, err error) {
	if err := guard.Sweep(); err != nil {
		log.Warn("cannot detach the GPU guard of an earlier phosd", "error", err)
	}
	if !settings.Gpus.Exclusive {
		return nil, func() error { return nil }, nil
	}
	if opened, err = guard.Open(guard.Options{Log: log}); err != nil {
		return nil, nil, err
	}
	return opened, opened.Close, nil
}
