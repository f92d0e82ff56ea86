package procgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// batch is how many processes are signaled at a time. Each needs a file descriptor.
const batch = 64

// Signal sends a signal to each process of the group. One that is forked at the same time may miss
// it.
func (g *Group) Signal(signal unix.Signal) error {
	listed, err := g.Processes()
	if err != nil {
		return err
	}
	var all error
	for pids := range slices.Chunk(listed, batch) {
		all = errors.Join(all, g.signalBatch(pids, signal))
	}
	return all
}

// signalBatch signals some processes. Their pids may be others' by now, so it asks again once it
// has pidfds: what is still listed then, or has ended, is what the pidfd is of.
func (g *Group) signalBatch(pids []int, signal unix.Signal) error {
	pidfds := make([]int, len(pids))
	for i, pid := range pids {
		var err error
		if pidfds[i], err = unix.PidfdOpen(pid, 0); err != nil {
			pidfds[i] = -1 // it has ended
			continue
		}
		defer unix.Close(pidfds[i])
	}
	still, err := g.Processes()
	if err != nil {
		return err
	}
	var all error
	for i, pid := range pids {
		if pidfds[i] < 0 || !slices.Contains(still, pid) {
			continue
		}
		if err := unix.PidfdSendSignal(pidfds[i], signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			all = errors.Join(all, fmt.Errorf("signal pid %d: %w", pid, err))
		}
	}
	return all
}

// pause waits for a millisecond, or until ctx is done.
func pause(ctx context.Context) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
