package phosd

import (
	"fmt"
	"net"
	"os"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/phosd/sockmux"
)

// Reloadable are the settings that Reload changes.
func Reloadable() []string {
	return []string{
		"access.users", "access.groups", "access.mode", "users.device_memory", "users.pinned_memory", "users.requests",
		"users.files", "users.stream_bytes", "users.work_bytes", "users.image_bytes",
	}
}

// Reload makes other settings of [access] and [users] effective. What a user holds beyond a new
// limit stays: only more is refused. Connections that are open stay open, but each request asks
// again whether its user may use phosd. After an error nothing has changed.
func (d *Daemon) Reload(next config.Config) error {
	allowed, err := next.Access.Resolve()
	if err != nil {
		return err
	}
	d.reloading.Lock()
	defer d.reloading.Unlock()
	// Only the settings of these sections: the others are those with which phosd was started.
	settings := d.settings
	settings.Access, settings.Users = next.Access, next.Users
	settings.Users.StreamIdle = d.settings.Users.StreamIdle
	if d.serving {
		if err := sockmux.Open(placeOf(settings, allowed)); err != nil {
			return fmt.Errorf("access: %w", err)
		}
	}
	d.settings = settings
	d.allowed.Store(&allowed)
	d.quota.SetLimits(d.limits(settings))
	d.devices.Ledger().SetLimits(uint64(settings.Users.DeviceMemory), uint64(settings.Users.PinnedMemory))
	return nil
}

// UseLog hands Options.WorkerLog to all workers again.
func (d *Daemon) UseLog() { d.sessions.UseLog(d.life) }

// placeOf returns where the socket is, and which users can connect.
func placeOf(settings config.Config, allowed config.Allowed) sockmux.Place {
	place := sockmux.Place{Path: settings.Socket, Mode: os.FileMode(settings.Access.Mode)}
	if len(allowed.GIDs) > 0 {
		place.GID = int(allowed.GIDs[0])
	}
	return place
}

// listen makes the socket, as the settings are now.
func (d *Daemon) listen() (*net.UnixListener, error) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	listener, err := sockmux.Listen(placeOf(d.settings, *d.allowed.Load()))
	d.serving = err == nil
	return listener, err
}

// endServing reports whether the socket was ours, which it is no longer.
func (d *Daemon) endServing() (served bool) {
	d.reloading.Lock()
	defer d.reloading.Unlock()
	served, d.serving = d.serving, false
	return served
}
