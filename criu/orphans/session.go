package orphans

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// EndSession ends all that is in the session of a helper, and not the helper itself: CRIU, what
// CRIU has started to look at the kernel or at a program, what CRIU has made of a tree.
func EndSession(leader proc.Identity) error {
	if now, err := proc.Of(leader.PID); err == nil && now != leader {
		return nil // a pid is not given away while there are processes of its session
	}
	pids, err := proc.All()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		stat, err := proc.ReadStat(pid)
		if proc.Unknown(err) {
			return err
		}
		if err != nil || stat.Session != leader.PID || stat.Zombie() || pid == leader.PID ||
			stat.StartTicks < leader.StartTicks {
			continue
		}
		if err := End(stat.Identity); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long it may take until a process that was killed has ended.
const patience = 10 * time.Second

// End ends one process, and returns when it has ended or takes too long for that.
func End(id proc.Identity) error {
	handle, err := proc.Open(id)
	if proc.Unknown(err) {
		return err
	}
	if err != nil {
		return nil // it has ended
	}
	if err := handle.Signal(unix.SIGKILL); err != nil {
		_ = handle.Close()
		if errors.Is(err, proc.ErrGone) {
			return nil
		}
		return err
	}
	stop := time.AfterFunc(patience, func() { _ = handle.Close() })
	_ = handle.Wait() // returns when it is closed, too
	stop.Stop()
	_ = handle.Close()
	return nil
}
