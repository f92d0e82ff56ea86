package supervisor

import (
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/supervisor/process"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/linelog"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
)

// Spec says what a supervisor runs.
type Spec struct {
	Key
	// Epoch is that of the leader that ordered it. The supervisor only keeps it.
	Epoch int64 `json:"epoch,omitempty"`
	// Processes start in this order, at once. The attempt succeeds if all do.
	Processes []Process `json:"processes"`
	// Trunk, if set, is what the supervisor executes, and the Processes are its children. All have the
	// same user.
	Trunk *Trunk `json:"trunk,omitempty"`
	// Limits are for all processes together.
	Limits procgroup.Limits `json:"limits,omitzero"`
	// Grace is the time from SIGTERM to SIGKILL when the attempt ends by itself: one process has
	// failed, or all have succeeded and left others behind.
	Grace time.Duration `json:"grace,omitempty"`
	// Deadline is when all processes are killed, unless it is extended before; 0: never.
	Deadline time.Duration `json:"deadline,omitempty"`
	// Log bounds what is kept of what the processes print.
	Log linelog.Limits `json:"log,omitzero"`
	// Network is the network namespace of the supervisor and of all processes; nil: the caller's. Link
	// is the node's end of its link, by which an agent finds it again.
	Network *os.File `json:"-"`
	Link    string   `json:"link,omitempty"`
	// CgroupParent is the path of the cgroup, below the topmost ones, in which the attempt's own is
	// created; empty: phos.
	CgroupParent string `json:"cgroup_parent,omitempty"`
}

// Process is one process.
type Process = process.Process

// Trunk is the parent of the processes of an attempt in place of its supervisor, so that they are
// one tree, which can be saved whole. It has the descriptors and does the work of package trunk.
type Trunk struct {
	process.Process
	// Restores means that it stands for a trunk that it brings back from an image with the Processes.
	// They run when the agent says so.
	Restores bool `json:"restores,omitempty"`
}

// defaultParent is the CgroupParent if none is set.
const defaultParent = "phos"

// check returns the Spec with defaults filled in.
func (s Spec) check() (Spec, error) {
	if err := s.Key.Check(); err != nil {
		return s, err
	}
	var err error
	if s.Log, err = s.Log.Check(); err != nil {
		return s, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if s.CgroupParent == "" {
		s.CgroupParent = defaultParent
	}
	if s.Grace < 0 {
		return s, fmt.Errorf("%w: grace %s: want a time of 0 or more", ErrInvalid, s.Grace)
	}
	if n := len(s.Processes); n == 0 || n > launch.MaxProcesses {
		return s, fmt.Errorf("%w: %d processes: want 1 to %d", ErrInvalid, n, launch.MaxProcesses)
	}
	for i := range s.Processes {
		if err := s.Processes[i].Check(); err != nil {
			return s, fmt.Errorf("%w: process %d: %w", ErrInvalid, i, err)
		}
	}
	if s.Trunk == nil {
		return s, nil
	}
	if err := s.Trunk.Check(); err != nil {
		return s, fmt.Errorf("%w: trunk: %w", ErrInvalid, err)
	}
	for i := range s.Processes {
		if s.Processes[i].UID != s.Trunk.UID {
			return s, fmt.Errorf("%w: process %d has another user than the trunk", ErrInvalid, i)
		}
	}
	return s, nil
}
