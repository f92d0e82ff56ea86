package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
)

// Adopt returns an attempt that this or another agent has started, and how far it is. If its
// supervisor was killed, or the machine was started again, Adopt ends what is left and notes that.
// The error is ErrNotFound if there is no run directory.
func Adopt(ctx context.Context, root string, key Key) (*Attempt, Status, error) {
	a := &Attempt{Key: key, dir: filepath.Join(root, key.String())}
	if _, err := os.Stat(a.dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNotFound
		}
		return nil, Status{}, fmt.Errorf("adopt %.200s: %w", key, err)
	}
	status, err := a.Status(ctx)
	if err != nil {
		return nil, Status{}, fmt.Errorf("adopt %.200s: %w", key, err)
	}
	return a, status, nil
}

// settle ends an attempt that has no supervisor, and returns its last Status. It returns nil if
// there is a supervisor, which starts, runs or exits.
func (a *Attempt) settle(ctx context.Context) (*Status, error) {
	locked, err := lock(a.dir)
	if err != nil || locked == nil {
		return nil, err
	}
	defer locked.Close()
	var status Status
	if err := readJSON(a.dir, statusName, &status); err == nil && status.State == Ended {
		return &status, nil
	}
	var o order
	if err := readJSON(a.dir, orderName, &o); err != nil {
		// The agent was killed before it had started a supervisor, or power was cut: nothing is
		// left.
		o = order{}
	} else if err := clean(ctx, o.Cgroup); err != nil {
		return nil, err
	}
	if err := linelog.Seal(a.LogDirectory()); err != nil {
		return nil, err
	}
	boot, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	status.Key = a.Key
	status.lose(o, boot)
	return &status, writeJSON(a.dir, statusName, status, durable)
}

// lose notes the end of an attempt whose supervisor is no more.
func (s *Status) lose(o order, boot string) {
	s.State, s.Ended, s.Blocked = Ended, time.Now(), ""
	switch o.BootID {
	case boot:
		s.Reason, s.Detail = Lost, "the supervisor was killed, and the processes with it"
	case "":
		s.Reason, s.Detail = Lost, "no supervisor was started"
	default:
		s.Reason, s.Detail = Rebooted, "the machine was started again"
	}
	if len(s.Processes) == 0 {
		s.Processes = make([]ProcessStatus, len(o.Processes))
	}
	for i := range s.Processes {
		each := &s.Processes[i]
		switch {
		case each.Exit != nil:
		case each.PID == 0:
			each.Exit = &launch.Exit{Process: i, Error: s.Detail}
		default:
			each.Exit = &launch.Exit{Process: i, Signal: int(unix.SIGKILL)}
		}
	}
}

// clean kills what is left in an attempt's cgroup, and removes it.
func clean(ctx context.Context, cgroup string) error {
	group, err := procgroup.Open(cgroup)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer group.Close()
	if err := group.KillAll(ctx); err != nil {
		return err
	}
	return group.Remove(ctx)
}
