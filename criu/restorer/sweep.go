package restorer

import (
	"errors"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/freezer"
)

// Sweep ends trees whose keeper was killed before they had run.
func Sweep() error {
	orphans, err := cgroup.Orphans(groupKind)
	failures := []error{err}
	for _, orphan := range orphans {
		failures = append(failures, freezer.At(orphan.Path).Kill())
	}
	return errors.Join(failures...)
}
