package inspect

import (
	"maps"
	"os/exec"
	"strconv"
	"testing"
)

// A process that is just ending loses its namespaces: it has all of them, or it is ending.
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
				break // it is a zombie at the latest
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
