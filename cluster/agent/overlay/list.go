package overlay

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// listTries is how often a list is asked for that changes while the kernel writes it.
const listTries = 100

// whole returns a list of the kernel that is complete: one that changed under way is asked for
// again.
func whole[T any](list func() ([]T, error)) (found []T, err error) {
	for range listTries {
		if found, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}
