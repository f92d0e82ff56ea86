package cluster

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs the tests, or the witness that launches of TestFaults consist of.
func TestMain(m *testing.M) {
	if directory := os.Getenv(witnesses); directory != "" {
		os.Exit(testify(directory, os.Args[1:]))
	}
	// Parallel tests wait most of the time: more of them run at once than there are CPUs.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	failed := m.Run()
	removeBuild()
	os.Exit(failed)
}
