package orphans

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// EndSession kills all processes in the session of leader, but not leader itself: CRIU and CRIU's
// helpers.
func EndSession(leader proc.Identity) error {
	if now, err := proc.Of(leader.PID); err == nil && now != leader {
		return nil // the kernel does not reuse a pid while it is the id of a session
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
		if err := end(stat.Identity); err != nil {
			return err
		}
	}
	return nil
}

// endTimeout is how long a killed process may take to end.
const endTimeout = 10 * time.Second

// end kills one process and waits until it has ended or endTimeout is over.
func end(id proc.Identity) error {
	handle, err := proc.Open(id)
	if proc.Unknown(err) {
		return err
	}
	if err != nil {
		return nil // it has already ended
	}
	if err := handle.Signal(unix.SIGKILL); err != nil {
		_ = handle.Close()
		if errors.Is(err, proc.ErrGone) {
			return nil
		}
		return err
	}
	stop := time.AfterFunc(endTimeout, func() { _ = handle.Close() })
	_ = handle.Wait() // also returns when the handle is closed
	stop.Stop()
	_ = handle.Close()
	return nil
}
