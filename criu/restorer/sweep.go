package restorer

import (
	"errors"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/freezer"
)

// Kinds of cgroups of a restorer. Only the restorer's own processes are ever in them, so what is
// left in one may be killed.
const (
	// startKind is for CRIU and the tree that it creates.
	startKind = "restoring"
	// groupKind is for the complete tree until it is committed.
	groupKind = "restored"
)

// Sweep kills trees whose restorer was killed before they were committed.
func Sweep() (err error) {
	for _, kind := range []string{startKind, groupKind} {
		orphans, failure := cgroup.Orphans(kind)
		err = errors.Join(err, failure)
		for _, orphan := range orphans {
			err = errors.Join(err, freezer.At(orphan.Path).Kill())
		}
	}
	return err
}
