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
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/runner"
)

// ErrNoProgram is returned when CRIU is not installed.
var ErrNoProgram = errors.New("no CRIU is installed")

// ErrOld is returned when CRIU lacks features that phos needs.
var ErrOld = errors.New("too old")

// oldest has the oldest CRIU with all features that phos needs, by the oldest Linux that needs it,
// newest first. scripts/criu.sh reads these lines.
var oldest = []struct{ linux, criu string }{
	{"6.16", "4.2"}, // an older CRIU asks every socket for SO_PASSCRED, which this kernel refuses
	{"0.0", "4.1"},
}

// oldestFor returns the oldest CRIU for a kernel, by its release.
func oldestFor(release string) string {
	for _, each := range oldest {
		if !older(release, each.linux) {
			return each.criu
		}
	}
	return oldest[len(oldest)-1].criu // the release is not a number
}

// older reports whether a version is older than another. It compares two numbers. A text without
// them is not older.
func older(version, than string) bool {
	var major, minor, thanMajor, thanMinor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(than, "%d.%d", &thanMajor, &thanMinor); err != nil {
		return false
	}
	return major < thanMajor || major == thanMajor && minor < thanMinor
}

// release returns the release of the running kernel.
func release() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// remedy says what to do about both.
func remedy() string {
	return fmt.Sprintf("install criu %s or newer, or name one by criu in phosd.toml", oldestFor(release()))
}

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
	if !unchanged(v.file, file) {
		// Not by a request, which old versions do not understand.
		output, err := exec.CommandContext(ctx, program, "--version").Output()
		if err != nil {
			return "", fmt.Errorf("CRIU: %s --version: %w", program, err)
		}
		v.file, v.text = file, parseVersion(string(output))
	}
	return v.text, checkVersion(v.text, program, release())
}

// unchanged reports whether a program is the file that was asked before; nil: none was.
func unchanged(asked, now os.FileInfo) bool {
	return asked != nil && os.SameFile(asked, now) && asked.ModTime().Equal(now.ModTime())
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

// checkVersion returns ErrOld for a version that is too old for a kernel.
func checkVersion(version, program, kernel string) error {
	needed := oldestFor(kernel)
	if !older(version, needed) { // a custom build without a version number is accepted
		return nil
	}
	return fmt.Errorf("version %s at %s is %w: Linux %s needs %s", version, program, ErrOld, kernel, needed)
}
