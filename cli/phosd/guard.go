package main

import (
	"log/slog"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
)

// openGuard removes what a killed phosd has left, and opens the device policy if gpus.exclusive is
// set; otherwise it returns nil.
func openGuard(settings config.Config, log *slog.Logger) (made *guard.Guard, end func() error, err error) {
	if err := guard.Sweep(); err != nil {
		log.Warn("remove device policy of a killed phosd", "error", err)
	}
	if !settings.Gpus.Exclusive {
		return nil, func() error { return nil }, nil
	}
	if made, err = guard.Open(guard.Options{Log: log}); err != nil {
		return nil, nil, err
	}
	return made, made.Close, nil
}
