package cgroup

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Name is that of a cgroup of a kind which a process looks after. It has the pid namespace in which
// the caller sees that process: a phosd in another one, over the same cgroups, cannot tell whether
// the process is there.
func Name(kind string, owner proc.Identity) string {
	return fmt.Sprintf("phos.%s.in%d.%d.%d", kind, Namespace(), owner.PID, owner.StartTicks)
}

// Namespace numbers the caller's pid namespace; 0 where nothing tells it.
func Namespace() uint64 {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/pid", &stat); err != nil {
		return 0
	}
	return stat.Ino
}

// Orphan is a cgroup whose owner has ended.
type Orphan struct {
	Path  string
	Owner proc.Identity
}

// Orphans finds those of a kind. What somebody looks after, for another phosd perhaps, is not among
// them.
func Orphans(kind string) ([]Orphan, error) {
	paths, err := Find("phos." + kind + ".*")
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var orphans []Orphan
	here := Namespace()
	for _, path := range paths {
		var owner proc.Identity
		var seen uint64
		_, err := fmt.Sscanf(filepath.Base(path), "phos."+kind+".in%d.%d.%d", &seen, &owner.PID, &owner.StartTicks)
		if err == nil && seen == here && owner.Gone() {
			orphans = append(orphans, Orphan{path, owner})
		}
	}
	return orphans, nil
}
