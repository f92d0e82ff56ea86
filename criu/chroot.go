package criu

import (
	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// chrooted is the obstacle of a phosd whose root directory is not a mount point: CRIU finds no
// parent for the mounts below it. scripts/criu.sh says the same.
var chrooted = ckpt.Obstacle{
	Subject: "CRIU",
	Reason:  "the root directory is not a mount point, as in a chroot, and CRIU cannot work there",
	Remedy: "leave the chroot, run 'mount --rbind DIR DIR' for its directory, mount /proc below it if it is missing, " +
		"enter it again by chroot DIR, and start phosd there again",
}

// inChroot reports whether phosd, and so CRIU, runs in such a root directory.
func inChroot() bool {
	mounted, err := proc.RootMounted()
	return err == nil && !mounted // CRIU says what is wrong with /proc
}
