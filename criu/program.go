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

// ErrNoProgram means that there is no CRIU.
var ErrNoProgram = errors.New("no CRIU is installed")

// ErrOld means that CRIU does not know what phos asks of it.
var ErrOld = errors.New("too old")

// The first CRIU that knows what phos asks of it.
const oldestMajor, oldestMinor = 4, 1

// remedy is what can be done about both.
const remedy = "install criu 4.1 or newer, or name one by criu in phosd.toml"

// Find looks for CRIU. A configured path is taken as it is; a name means the program that was
// installed with phosd, else the one that PATH names. It is empty where there is none.
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

// ask puts a question to CRIU that is about no process.
func ask(ctx context.Context, program string, question rpc.CriuReqType) (*rpc.CriuResp, error) {
	// CRIU 4.1 wants a directory for images here too. In this one it can leave nothing.
	nowhere, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer nowhere.Close()
	return runner.Run(ctx, runner.Request{Program: program, Type: question, Images: nowhere, Options: &rpc.CriuOpts{}})
}

// version is what a CRIU calls itself; it is asked once, until another one takes its place.
type version struct {
	mu   sync.Mutex
	file os.FileInfo
	text string
}

// of fails with ErrNoProgram or ErrOld where phos cannot work with the program.
func (v *version) of(ctx context.Context, program string) (string, error) {
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
		// Not by a request: old ones do not understand those.
		said, err := exec.CommandContext(ctx, program, "--version").Output()
		if err != nil {
			return "", fmt.Errorf("CRIU: %s --version: %w", program, err)
		}
		v.file, v.text = file, versionIn(string(said))
	}
	return v.text, suits(v.text, program)
}

// versionIn is empty for a program that gives none.
func versionIn(said string) string {
	for line := range strings.Lines(said) {
		if text, found := strings.CutPrefix(line, "Version: "); found {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

func suits(version, program string) error {
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return nil // one that is made for somebody gets its chance
	}
	if major > oldestMajor || major == oldestMajor && minor >= oldestMinor {
		return nil
	}
	return fmt.Errorf("version %s at %s is %w", version, program, ErrOld)
}
