package freezer

import (
	"fmt"
	"path/filepath"

	"github.com/phos-gpu/phos/daemon/process"
)

// Name is that of a group of a kind which a process looks after.
func Name(kind string, owner process.Identity) string {
	return fmt.Sprintf("phos.%s.%d.%d", kind, owner.PID, owner.StartTicks)
}

// Orphan is a group whose owner has ended.
type Orphan struct {
	*Group
	Owner process.Identity
}

// Orphans finds those of a kind. What somebody looks after, for another phosd perhaps, is not among them.
func Orphans(kind string) ([]Orphan, error) {
	groups, err := Find("phos." + kind + ".*")
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	var orphans []Orphan
	for _, group := range groups {
		var owner process.Identity
		_, err := fmt.Sscanf(filepath.Base(group.Path), "phos."+kind+".%d.%d", &owner.PID, &owner.StartTicks)
		if err == nil && owner.Check() != nil {
			orphans = append(orphans, Orphan{group, owner})
		}
	}
	return orphans, nil
}
