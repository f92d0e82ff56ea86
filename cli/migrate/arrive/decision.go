package arrive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/phos-gpu/phos/cli/migrate/wire"
	"github.com/phos-gpu/phos/internal/ticks"
)

// Names in the directory of a migration.
const (
	prefix = "phos-take-over-"

	imageName = "image"
	headName  = "head" // the image without memory

	openName    = "open"
	takenName   = "taken"
	refusedName = "refused"
	// runningName holds the pid of the program.
	runningName = "running"
)

// answerTime is how long an answer waits for a program that is about to run, lookTime the time
// between two looks.
const (
	answerTime = 20 * time.Second
	lookTime   = 50 * time.Millisecond
)

// decide lets the program run here, unless it was refused before.
func decide(dir string) error {
	err := os.Rename(filepath.Join(dir, openName), filepath.Join(dir, takenName))
	if err != nil {
		return fmt.Errorf("the source has given this migration up: %w", err)
	}
	return nil
}

// answer says how a migration has ended. If that is open, it never runs here.
func answer(ctx context.Context, dir string) (wire.Message, error) {
	if err := checkName(dir); err != nil {
		return wire.Message{}, err
	}
	err := os.Rename(filepath.Join(dir, openName), filepath.Join(dir, refusedName))
	if err == nil {
		return wire.Message{Kind: wire.Absent}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return wire.Message{}, err
	}
	if _, err := os.Stat(filepath.Join(dir, takenName)); errors.Is(err, fs.ErrNotExist) {
		return wire.Message{Kind: wire.Absent}, nil // it was undone, and its directory removed, or refused before
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for range ticks.Every(ctx, lookTime) {
		text, err := os.ReadFile(filepath.Join(dir, runningName))
		if err != nil {
			continue
		}
		if pid, err := strconv.ParseUint(string(text), 10, 32); err == nil {
			return wire.Message{Kind: wire.Running, PID: uint32(pid)}, os.RemoveAll(dir)
		}
	}
	return wire.Message{}, errors.New("the program was about to run here, and does not: phosd's log says why")
}

// checkName refuses directories that are not of a migration, or of another user.
func checkName(dir string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(filepath.Base(dir), prefix) {
		return nil
	}
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || !strings.HasPrefix(filepath.Base(dir), prefix) {
		return fmt.Errorf("%s is not the directory of a migration", dir)
	}
	return nil
}
