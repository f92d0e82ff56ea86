package keeper

import (
	"errors"

	"github.com/phos-gpu/phos/criu/freezer"
)

// Sweep ends trees whose keeper was killed before they had run.
func Sweep() error {
	orphans, err := freezer.Orphans(groupKind)
	failures := []error{err}
	for _, orphan := range orphans {
		failures = append(failures, orphan.Kill())
	}
	return errors.Join(failures...)
}
