package worker

import (
	"errors"
	"fmt"
	"os"

	"github.com/phos-gpu/phos/daemon/worker/boot"
)

// handed are the files that a worker is given for its session: inherited, or sent to one that has
// waited.
type handed struct {
	// first is the program's socket, or the life line; pidfd is the program, and nil in a worker that
	// makes a session again.
	first, control, ledger, pidfd *os.File
	packs                         []*os.File
}

// inherited are the files of a worker that was started for its session.
func inherited(config boot.Config) handed {
	files := handed{
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

// sent are the files that come with the configuration of a worker that has waited, in the order in
// which others inherit them.
func sent(config boot.Config, all []*os.File) (files handed, err error) {
	const before = 2
	want := before + 1
	if config.Restore != nil {
		want = before + config.Restore.Packs
	}
	if len(all) != want {
		return handed{}, fmt.Errorf("%d files in place of %d: %w", len(all), want, errConfig)
	}
	files = handed{first: all[0], control: all[1]}
	if config.Restore == nil {
		files.pidfd = all[before]
		return files, nil
	}
	files.packs = all[before:]
	return files, nil
}

// errConfig means that phosd and this worker do not understand each other.
var errConfig = errors.New("worker configuration")
