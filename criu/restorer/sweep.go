package restorer

import (
	"errors"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/freezer"
)

// Sweep kills trees whose restorer was killed before they were committed.
func Sweep() error {
	orphans, err := cgroup.Orphans(groupKind)
	failures := []error{err}
	for _, orphan := range orphans {
		failures = append(failures, freezer.At(orphan.Path).Kill())
	}
	return errors.Join(failures...)
}
