package criu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/checkpoint-restore/go-criu/v7/rpc"

	"github.com/phos-gpu/phos/criu/runner"
)

// ErrNoProgram is returned when CRIU is not installed.
var ErrNoProgram = errors.New("no CRIU is installed")

// ErrOld is returned when CRIU lacks features that phos needs.
var ErrOld = errors.New("too old")

// The oldest CRIU with all features that phos needs.
const oldestMajor, oldestMinor = 4, 1

// remedy says what to do about both.
const remedy = "install criu 4.1 or newer, or name one by criu in phosd.toml"

// Find returns the path of CRIU, or "" if there is none. A configured path is used as it is. A name
// means the program that was installed with phosd, or the first one in PATH.
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

// query sends CRIU a request that concerns no process.
func query(ctx context.Context, program string, question rpc.CriuReqType) (*rpc.CriuResp, error) {
	// CRIU 4.1 requires a directory for images here, too. It cannot create files in this one.
	nowhere, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer nowhere.Close()
	return runner.Run(ctx, runner.Request{Program: program, Type: question, Images: nowhere, Options: &rpc.CriuOpts{}})
}

// version caches CRIU's version until its file changes.
type version struct {
	mu   sync.Mutex
	file os.FileInfo
	text string
}

// get returns the version of program. The error is ErrNoProgram or ErrOld if phos cannot use it.
func (v *version) get(ctx context.Context, program string) (string, error) {
	if program == "" {
		return "", ErrNoProgram
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	file, err := os.Stat(program)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w at %s", ErrNoProgram, program)
	}
	if err != nil {
		return "", fmt.Errorf("CRIU: %w", err)
	}
	if v.file == nil || !os.SameFile(v.file, file) || !v.file.ModTime().Equal(file.ModTime()) {
		// Not by a request, which old versions do not understand.
		output, err := exec.CommandContext(ctx, program, "--version").Output()
		if err != nil {
			return "", fmt.Errorf("CRIU: %s --version: %w", program, err)
		}
		v.file, v.text = file, parseVersion(string(output))
	}
	return v.text, checkVersion(v.text, program)
}

// parseVersion returns "" if the output has no version.
func parseVersion(output string) string {
	for line := range strings.Lines(output) {
		if text, found := strings.CutPrefix(line, "Version: "); found {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// checkVersion returns ErrOld for an old version.
func checkVersion(version, program string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return nil // a custom build without a version number is accepted
	}
	if major > oldestMajor || major == oldestMajor && minor >= oldestMinor {
		return nil
	}
	return fmt.Errorf("version %s at %s is %w", version, program, ErrOld)
}
