package image

import "testing"

// TestNumberIn: an endpoint has a number in a process only where that process has it open.
func TestNumberIn(t *testing.T) {
	e := &Endpoint{Descriptors: []string{"pid 12 fd 7", "pid 123 fd 1", "pid 12 fd 5", "odd", "pid 14 fd -"}}
	for pid, want := range map[int]int{12: 5, 123: 1, 1: -1, 14: -1} {
		if got := e.NumberIn(&Process{PID: pid}); got != want {
			t.Errorf("pid %d has it as %d, want %d", pid, got, want)
		}
	}
}
