package keeper

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/phos-gpu/phos/criu/freezer"
	"github.com/phos-gpu/phos/daemon/process"
)

// Sweep ends trees whose keeper was killed before they had run.
func Sweep() error {
	groups, err := freezer.Find(groupPattern)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	var failures []error
	for _, group := range groups {
		var owner process.Identity
		if _, err := fmt.Sscanf(filepath.Base(group.Path), "phos.restored.%d.%d", &owner.PID, &owner.StartTicks); err == nil && owner.Check() != nil {
			failures = append(failures, group.Kill())
		}
	}
	return errors.Join(failures...)
}
