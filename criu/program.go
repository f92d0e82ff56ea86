package criu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoProgram means that there is no CRIU.
var ErrNoProgram = errors.New("no CRIU is installed: install criu 4.1 or newer, or name one by criu in phosd.toml")

// Find looks for CRIU. A configured path is taken as it is; a name means the program that was installed with phosd, else
// the one that PATH names. It is empty where there is none.
func Find(configured string) string {
	if strings.Contains(configured, "/") {
		return configured
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "..", "lib", "phos", "criu", "criu")
		if info, err := os.Stat(beside); err == nil && info.Mode()&0o111 != 0 {
			return beside
		}
	}
	found, err := exec.LookPath(configured)
	if err != nil {
		return ""
	}
	return found
}
