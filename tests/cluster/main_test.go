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
	// As many as wait most of the time run at once; -parallel overrides it.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	failed := m.Run()
	removeBuild()
	os.Exit(failed)
}
