package supervisor

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

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
	// Limits are for all processes together.
	Limits procgroup.Limits `json:"limits,omitzero"`
	// Grace is the time from SIGTERM to SIGKILL when the attempt ends by itself: one process has
	// failed, or all have succeeded and left others behind.
	Grace time.Duration `json:"grace,omitempty"`
	// Deadline is when all processes are killed, unless it is extended before; 0: never.
	Deadline time.Duration `json:"deadline,omitempty"`
	// Log bounds what is kept of what the processes print.
	Log linelog.Limits `json:"log,omitzero"`
	// CgroupParent is the path of the cgroup, below the topmost ones, in which the attempt's own is
	// created; empty: phos.
	CgroupParent string `json:"cgroup_parent,omitempty"`
}

// Process is one process.
type Process struct {
	// Command is executed without a shell. A name without a slash is looked for in PATH of
	// Environment.
	Command []string `json:"argv"`
	// Environment is all that the process gets, as NAME=VALUE.
	Environment []string `json:"env,omitempty"`
	// Directory is absolute. The process enters it as its user.
	Directory string   `json:"dir"`
	UID       uint32   `json:"uid"`
	GID       uint32   `json:"gid"`
	Groups    []uint32 `json:"groups,omitempty"`
}

// defaultParent is the CgroupParent if none is set.
const defaultParent = "phos"

// noID is what the kernel takes for no user or group.
const noID = math.MaxUint32

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
		if err := s.Processes[i].check(); err != nil {
			return s, fmt.Errorf("%w: process %d: %w", ErrInvalid, i, err)
		}
	}
	return s, nil
}

// check refuses what no process can have.
func (p *Process) check() error {
	switch {
	case len(p.Command) == 0 || p.Command[0] == "":
		return fmt.Errorf("no command")
	case !filepath.IsAbs(p.Directory):
		return fmt.Errorf("directory %.100q: want an absolute path", p.Directory)
	case p.UID == noID || p.GID == noID:
		return fmt.Errorf("user %d, group %d: there are no such ids", p.UID, p.GID)
	}
	for _, texts := range [][]string{p.Command, p.Environment, {p.Directory}} {
		for _, each := range texts {
			if strings.ContainsRune(each, 0) {
				return fmt.Errorf("%.100q has a NUL byte", each)
			}
		}
	}
	return nil
}
