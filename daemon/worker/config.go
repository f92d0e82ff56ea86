package worker

import (
	"errors"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/daemon/worker/boot"
)

// sessionFiles are the files that a worker gets for its session: inherited, or sent to a standby
// worker.
type sessionFiles struct {
	// first is the program's socket, or the lifeline in a worker that restores a session. pidfd is the
	// program's; it is nil in a worker that restores a session.
	first, control, ledger, pidfd *os.File
	packs                         []*os.File
}

// inheritedFiles returns the files of a worker that was started for its session.
func inheritedFiles(config boot.Config) sessionFiles {
	files := sessionFiles{
		first: os.NewFile(
			boot.ProgramFD,
			"program",
		), control: os.NewFile(boot.ControlFD, "control"), ledger: os.NewFile(boot.LedgerFD, "ledger"),
	}
	if config.Restore == nil {
		files.pidfd = os.NewFile(boot.PidfdFD, "pidfd")
		return files
	}
	for i := range config.Restore.Packs {
		files.packs = append(files.packs, os.NewFile(uintptr(boot.PacksFD+i), "pack"))
	}
	return files
}

// receivedFiles returns the files that a standby worker received with its configuration, in the
// order in which other workers inherit them.
func receivedFiles(config boot.Config, all []*os.File) (files sessionFiles, err error) {
	const before = 2
	want := before + 1
	if config.Restore != nil {
		want = before + config.Restore.Packs
	}
	if len(all) != want {
		return sessionFiles{}, fmt.Errorf("got %d files, want %d: %w", len(all), want, errConfig)
	}
	files = sessionFiles{first: all[0], control: all[1]}
	if config.Restore == nil {
		files.pidfd = all[before]
		return files, nil
	}
	files.packs = all[before:]
	return files, nil
}

// errConfig is returned when phosd sends a configuration that this worker cannot use.
var errConfig = errors.New("invalid worker configuration")
