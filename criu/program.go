package criu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoProgram means that there is no CRIU.
var ErrNoProgram = errors.New("no CRIU is installed: install criu 4.1 or newer, or name one by criu in phosd.toml")

// Find looks for CRIU: the one that is configured, the one that was installed with phosd, the one of the distribution.
// It is empty where there is none.
func Find(configured string) string {
	if configured != "" {
		return configured
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "..", "lib", "phos", "criu", "criu")
		if info, err := os.Stat(beside); err == nil && info.Mode()&0o111 != 0 {
			return beside
		}
	}
	found, err := exec.LookPath("criu")
	if err != nil {
		return ""
	}
	return found
}
