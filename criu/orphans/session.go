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
	left, err := find(leader)
	if err != nil {
		return err
	}
	for _, id := range left {
		if err := end(id); err != nil {
			return err
		}
	}
	return nil
}

// LetEnd asks each of these processes to end by itself, and waits for that, at most for limit.
func LetEnd(leader proc.Identity, limit time.Duration, ask func(pid int)) error {
	left, err := find(leader)
	if err != nil {
		return err
	}
	var handles []*proc.Handle
	for _, id := range left {
		handle, err := proc.Open(id)
		if proc.Unknown(err) {
			return err
		}
		if err != nil {
			continue // it has ended
		}
		defer handle.Close()
		handles = append(handles, handle)
		ask(id.PID)
	}
	stop := time.AfterFunc(limit, func() {
		for _, handle := range handles {
			_ = handle.Close()
		}
	})
	defer stop.Stop()
	for _, handle := range handles {
		_ = handle.Wait() // also returns when the handle is closed
	}
	return nil
}

// find lists the processes in the session of leader, without leader itself.
func find(leader proc.Identity) (found []proc.Identity, err error) {
	if now, err := proc.Of(leader.PID); err == nil && now != leader {
		return nil, nil // the kernel does not reuse a pid while it is the id of a session
	}
	pids, err := proc.All()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		stat, err := proc.ReadStat(pid)
		if proc.Unknown(err) {
			return nil, err
		}
		if err != nil || stat.Session != leader.PID || stat.Zombie() || pid == leader.PID ||
			stat.StartTicks < leader.StartTicks {
			continue
		}
		found = append(found, stat.Identity)
	}
	return found, nil
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
