package cluster

import (
	"os"
	"testing"
)

// TestMain runs the tests, or the witness that launches of TestFaults consist of.
func TestMain(m *testing.M) {
	if directory := os.Getenv(witnesses); directory != "" {
		os.Exit(testify(directory, os.Args[1:]))
	}
	failed := m.Run()
	removeBuild()
	os.Exit(failed)
}
