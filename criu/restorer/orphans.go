package restorer

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/phos-gpu/phos/criu/orphans"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// endOrphans ends what a keeper has left that was killed while CRIU was at work: its session, and
// processes with pids of the tree, which were free when the keeper began, and which nobody else has
// made since.
func (c *Client) endOrphans() error {
	if err := orphans.EndSession(c.id); err != nil {
		return err
	}
	for range looks {
		left := c.orphans()
		if len(left) == 0 {
			return nil
		}
		for _, id := range left {
			if err := orphans.End(id); err != nil {
				return err
			}
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel tells nobody
	}
	return errors.New("keeper: processes of a restore that failed do not end")
}

// looks is how often it is looked for orphans, which may have made others meanwhile.
const looks = 5000

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

// ancestors are who may have got the children of a process that has ended, the nearest first.
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
