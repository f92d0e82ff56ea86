package config

import (
	"strconv"
	"time"
)

// Users limits what one user's programs and requests may take together. Root is not limited.
type Users struct {
	DeviceMemory Size     `toml:"device_memory" comment:"memory of each GPU that the programs of one user may have; 0: all of it while no other user has any, then as much as is still free, and at least an equal part"`
	PinnedMemory Size     `toml:"pinned_memory" comment:"memory of all sessions that the programs of one user may pin; 0: as much as is still free, so that there is always some for the next user"`
	Requests     int      `toml:"requests" comment:"checkpoints, restores and prepared images of one user at a time"`
	Files        int      `toml:"files" comment:"files that phosd keeps open for the requests of one user; 0: an eighth of what phosd may open"`
	StreamBytes  Size     `toml:"stream_bytes" comment:"images of one user on their way from and to streams, in state_dir; 0: as much as is still free"`
	WorkBytes    Size     `toml:"work_bytes" comment:"processes of one user on their way from and to images, in state_dir, as far as they are not in memory; 0: as much as is still free"`
	StreamIdle   Interval `toml:"stream_idle" comment:"how long a stream may send and take nothing before its request fails; a restore may have to wait for the dump at the other end"`
	ImageBytes   Size     `toml:"image_bytes" comment:"images of one user's programs in checkpoint.dir; beyond it, images of ended programs are removed, oldest first; 0: as much as is still free"`
}

// defaultUsers returns limits that need no change on a machine of many users.
func defaultUsers() Users {
	return Users{Requests: 16, StreamIdle: Interval(30 * time.Minute)}
}

// check refuses values that cannot work.
func (u Users) check() error {
	switch {
	case u.Requests < 1:
		return &SettingError{"users.requests", strconv.Itoa(u.Requests), "it must be at least 1"}
	case u.Files < 0:
		return &SettingError{"users.files", strconv.Itoa(u.Files), "it must not be negative"}
	case time.Duration(u.StreamIdle) < time.Second:
		return &SettingError{"users.stream_idle", time.Duration(u.StreamIdle).String(), "it is below a second"}
	}
	return nil
}
