package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestOrphans: a cgroup is an orphan if its owner is known to have ended.
func TestOrphans(t *testing.T) {
	where, err := Of(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	alive, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := proc.Identity{PID: alive.PID, StartTicks: alive.StartTicks + 1}
	const kind = "tried"
	for name, left := range map[string]bool{
		Name(kind, alive): false,
		Name(kind, gone):  true,
		fmt.Sprintf("phos.%s.in%d.%d.%d", kind, Namespace()+1, gone.PID, gone.StartTicks): false, // of another pid namespace
		fmt.Sprintf("phos.%s.%d", kind, gone.PID):                                         false, // without a namespace
	} {
		group := filepath.Join(where, name)
		if err := os.Mkdir(group, 0o755); err != nil {
			t.Skip(err)
		}
		orphans, err := Orphans(kind)
		if err != nil {
			t.Error(err)
		}
		if (len(orphans) == 1) != left || left && (orphans[0].Path != group || orphans[0].Owner != gone) {
			t.Errorf("%s: orphans %v, want it included: %v", name, orphans, left)
		}
		if err := os.Remove(group); err != nil {
			t.Fatal(err)
		}
	}
}
