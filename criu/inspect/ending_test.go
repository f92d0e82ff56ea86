package inspect

import (
	"maps"
	"os/exec"
	"strconv"
	"testing"
)

// An exiting process has either all of its namespaces or none.
func TestNamespacesOfEnding(t *testing.T) {
	self, err := readNamespaces("thread-self")
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		child := exec.Command("true")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for {
			m, err := readNamespaces(strconv.Itoa(child.Process.Pid))
			if err != nil {
				break // it has become a zombie
			}
			if !maps.Equal(m.namespaces, self.namespaces) {
				t.Errorf("namespaces %v, want %v", m.namespaces, self.namespaces)
			}
		}
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	}
}
