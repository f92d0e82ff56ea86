package restorer

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/phos-gpu/phos/criu/orphans"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// endOrphans kills what a restorer left behind that was killed while CRIU ran: its session, and
// processes with pids of the tree. Those pids were free when the restorer started.
func (c *Client) endOrphans() error {
	if err := orphans.EndSession(c.id); err != nil {
		return err
	}
	for range maxLooks {
		left := c.orphans()
		if len(left) == 0 {
			return nil
		}
		for _, id := range left {
			if err := orphans.End(id); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no event for it
	}
	return errors.New("restorer: cannot kill the processes of a failed restore")
}

// maxLooks is how often endOrphans looks for orphans, which may fork in the meantime.
const maxLooks = 5000

// orphans returns the processes of the tree that are still there.
func (c *Client) orphans() (found []proc.Identity) {
	foster := ancestors(os.Getpid())
	for _, pid := range c.pids {
		stat, err := proc.ReadStat(pid)
		switch {
		case err != nil || stat.Zombie() || stat.StartTicks < c.id.StartTicks:
		case slices.Contains(foster, stat.Parent) || slices.Contains(c.pids, stat.Parent):
			found = append(found, stat.Identity)
		}
	}
	return found
}

// ancestors returns the processes that may have inherited the children of a process that has ended,
// the nearest first.
func ancestors(pid int) (all []int) {
	for pid > 1 {
		stat, err := proc.ReadStat(pid)
		if err != nil {
			break
		}
		pid = stat.Parent
		all = append(all, pid)
	}
	return append(all, 1)
}
