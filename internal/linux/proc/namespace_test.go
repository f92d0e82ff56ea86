package proc

import (
	"maps"
	"os/exec"
	"testing"
)

// TestNamespacesOfEnding: an exiting process has either all of its namespaces or none.
func TestNamespacesOfEnding(t *testing.T) {
	kinds := []string{"mnt", "pid", "net", "user", "no such kind"}
	self, err := Namespaces(0, kinds)
	if err != nil || len(self) != 4 {
		t.Fatal(self, err)
	}
	for range 100 {
		child := exec.Command("true")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for {
			found, err := Namespaces(child.Process.Pid, kinds)
			if err != nil {
				break // it has become a zombie
			}
			if !maps.Equal(found, self) {
				t.Errorf("namespaces %v, want %v", found, self)
			}
		}
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	}
}
