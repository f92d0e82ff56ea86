package phosd

import (
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/daemon/phosd/statedir"
)

const (
	// maxFollowed is how many requests of a user may wait for ends of restored programs: about as many
	// as the user can have connections.
	maxFollowed = 256
	// filesPart is which part of phosd's files one user's requests may hold, and minFiles the least.
	filesPart = 8
	minFiles  = maxFiles + 64
)

// limits returns the limits of users.
func (d *Daemon) limits(settings config.Config) map[quota.Resource]quota.Limit {
	return limitsOf(settings, d.state.FreeBytes, func() uint64 {
		space, _ := d.dir.Space() // an error: none
		return space.FreeBytes
	})
}

// limitsOf returns the limits of users. free returns how much of the disk of the state directory is
// free, and pinned of the memory for sessions.
func limitsOf(settings config.Config, free, pinned func() uint64) map[quota.Resource]quota.Limit {
	users := settings.Users
	files := uint64(users.Files)
	if files == 0 {
		var limit unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // fails only for an unknown resource
		files = max(limit.Cur/filesPart, minFiles)
	}
	requests := uint64(users.Requests)
	images := func() uint64 { return statedir.FreeBytes(settings.Checkpoint.Dir) }
	if settings.Checkpoint.Dir == "" {
		images = nil
	}
	return map[quota.Resource]quota.Limit{
		quota.Requests: {Key: "users.requests", What: "requests in flight", Max: requests},
		quota.Prepared: {Key: "users.requests", What: "prepared images", Max: requests},
		quota.Followed: {Key: "users.requests", What: "followed restores", Max: max(requests, maxFollowed)},
		quota.Files:    {Key: "users.files", What: "files open for requests", Max: files},
		quota.StreamBytes: {
			Key: "users.stream_bytes", What: "images from and to streams", Bytes: true,
			Max: uint64(users.StreamBytes), Free: free,
		},
		quota.WorkBytes: {
			Key: "users.work_bytes", What: "processes on their way from and to images", Bytes: true,
			Max: uint64(users.WorkBytes), Free: free,
		},
		quota.Programs: {Key: "sessions.programs_per_user", What: "programs", Max: uint64(settings.Sessions.ProgramsPerUser)},
		quota.PinnedBytes: {
			Key: "users.pinned_memory", What: "memory of sessions", Bytes: true, Max: uint64(users.PinnedMemory), Free: pinned,
		},
		quota.DeviceBytes: {
			Key: ledger.DeviceKey, What: "memory of one GPU", Bytes: true, Max: uint64(users.DeviceMemory),
		},
		quota.ImageBytes: {
			Key: "users.image_bytes", What: "images in checkpoint.dir", Bytes: true,
			Max: uint64(settings.Users.ImageBytes), Free: images,
		},
	}
}
