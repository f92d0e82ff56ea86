package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd"
)

// reloader carries out SIGHUP: it opens the log file again, as after a rotation, and reads the
// configuration again. The log's level and what phosd.Reloadable lists take effect at once.
type reloader struct {
	flags  config.Flags
	loaded config.Config
	file   *os.File
	level  *slog.LevelVar
	log    *slog.Logger
	// apply makes the other settings effective that need no restart.
	apply func(config.Config) error
	// reopened hands the file to processes that have it open.
	reopened func()
}

// reloadable returns the settings that need no restart.
func reloadable() []string { return append(phosd.Reloadable(), "log.level") }

// watchHangup makes SIGHUP wait in a channel; it ends phosd otherwise.
func watchHangup() <-chan os.Signal {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, unix.SIGHUP)
	return hangups
}

// run serves each SIGHUP.
func (r *reloader) run(hangups <-chan os.Signal) {
	for range hangups {
		if err := r.reopen(); err != nil {
			r.log.Error("log file not opened again", "file", r.loaded.Log.File, "error", err)
		} else if r.loaded.Log.File != "" {
			r.reopened()
		}
		if err := r.reload(); err != nil {
			r.log.Error("configuration not reloaded; the earlier one stays in effect", "error", err)
		}
	}
}

// reopen opens the log file again under its number, so that workers that start later have it too.
func (r *reloader) reopen() error {
	if r.loaded.Log.File == "" {
		return nil
	}
	next, err := openLog(r.loaded.Log)
	if err != nil {
		return err
	}
	defer next.Close()
	if err := unix.Dup3(int(next.Fd()), int(r.file.Fd()), unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return nil
}

// reload reads the configuration and applies what can be changed.
func (r *reloader) reload() error {
	next, err := r.flags.Resolve()
	if err != nil {
		return err
	}
	next.Gpus.Offer = r.loaded.Gpus.Offer // "auto" was resolved at the start
	if err := r.apply(next); err != nil {
		return err
	}
	r.level.Set(next.Log.Threshold())
	later := slices.DeleteFunc(r.loaded.Differing(next), func(key string) bool { return slices.Contains(reloadable(), key) })
	r.log.Info("configuration reloaded", "level", next.Log.Level)
	if len(later) > 0 {
		r.log.Warn("these settings take effect when phosd is restarted", "keys", later)
	}
	return nil
}
