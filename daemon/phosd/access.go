package phosd

import (
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/daemon/api"
)

// mayUse returns an error unless a caller may use phosd, by its user, its group or its
// supplementary groups.
func (d *Daemon) mayUse(caller api.Caller) error {
	allowed := d.allowed.Load()
	if caller.Root() || len(allowed.UIDs) == 0 && len(allowed.GIDs) == 0 ||
		slices.Contains(allowed.UIDs, caller.UID) || slices.Contains(allowed.GIDs, caller.GID) ||
		slices.ContainsFunc(caller.Groups, func(gid uint32) bool { return slices.Contains(allowed.GIDs, gid) }) {
		return nil
	}
	return fmt.Errorf("%w: this user may not use phosd (access.users, access.groups)", api.ErrNotPermitted)
}
