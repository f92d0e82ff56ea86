package cgroup

import (
	"fmt"
	"path/filepath"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Name returns the name of a cgroup of a kind that belongs to owner. It contains the pid namespace
// of the caller: a phosd in another one, with the same cgroups, cannot tell whether the owner
// exists.
func Name(kind string, owner proc.Identity) string {
	return fmt.Sprintf("phos.%s.in%d.%d.%d", kind, Namespace(), owner.PID, owner.StartTicks)
}

// Namespace returns the inode number of the caller's pid namespace; 0 if unknown.
func Namespace() uint64 { return proc.NamespaceInode("pid") }

// Orphan is a cgroup whose owner has ended.
type Orphan struct {
	Path  string
	Owner proc.Identity
}

// Orphans finds orphaned cgroups of a kind. Cgroups with a living owner, perhaps of another phosd,
// are not included.
func Orphans(kind string) ([]Orphan, error) {
	paths, err := Find("phos." + kind + ".*")
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var orphans []Orphan
	for _, path := range paths {
		if owner, ok := OwnerOf(kind, filepath.Base(path)); ok && owner.Gone() {
			orphans = append(orphans, Orphan{path, owner})
		}
	}
	return orphans, nil
}

// OwnerOf returns the owner that a name contains, which Name has made, perhaps with more text
// behind it. ok is false for other names, and for owners in another pid namespace.
func OwnerOf(kind, name string) (owner proc.Identity, ok bool) {
	var seen uint64
	_, err := fmt.Sscanf(name, "phos."+kind+".in%d.%d.%d", &seen, &owner.PID, &owner.StartTicks)
	return owner, err == nil && seen == Namespace()
}
