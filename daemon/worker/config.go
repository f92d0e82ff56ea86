package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// File descriptors that a worker inherits. phosd passes exactly these. A worker that restores a
// session gets LifeFD and PacksFD instead of ProgramFD and PidfdFD.
const (
	ProgramFD = 3 // the accepted socket of the program
	ControlFD = 4 // a listening socket that only root can reach
	LedgerFD  = 5 // the memory accounting, daemon/gpu/ledger
	ConfigFD  = 6 // a pipe with Config as JSON; empty if phosd gave up
	PidfdFD   = 7 // the program

	// the read end of a pipe: EOF before Attach means that phosd has exited or cancelled the restore
	LifeFD  = 3
	PacksFD = 7 // the first of Restore.Packs packs, open for reading
)

// Config is the configuration that phosd sends to a new worker.
type Config struct {
	Session uint64        `json:"session"`
	Program proc.Identity `json:"program"`
	// UID, GID and Groups are the program's; the worker switches to this user.
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
	// Gpus names the backend, for example "soft:1".
	Gpus string `json:"gpus"`
	// SessionPath and ArenaPath are the session's files, which exist.
	SessionPath string `json:"session_path"`
	ArenaPath   string `json:"arena_path"`
	ArenaBytes  uint64 `json:"arena_bytes"`
	// LedgerSlot is the session's slot in the memory ledger.
	LedgerSlot int `json:"ledger_slot"`
	// StartSeconds is how long the program may take for the handshake.
	StartSeconds int `json:"start_seconds"`
	// Log is phosd's log configuration. The worker logs to its standard error.
	Log config.Log `json:"log"`
	// Restore is nil unless the worker restores a session. If it is set, Program is not known yet, the
	// session's files have their sizes but no content, and Attach names the program.
	Restore *Restore `json:"restore,omitempty"`
}

// Restore says what a session is restored from.
type Restore struct {
	// Tree is the hash of the tree with the session's GPU half (image.GPUHalf.Tree).
	Tree string `json:"tree"`
	// Packs is the number of inherited packs.
	Packs int `json:"packs"`
	// Eager makes the worker load all memory before the program may run.
	Eager bool `json:"eager,omitempty"`
}

// sessionFiles are the files that a worker gets for its session: inherited, or sent to a standby
// worker.
type sessionFiles struct {
	// first is the program's socket, or the lifeline in a worker that restores a session. pidfd is the
	// program's; it is nil in a worker that restores a session.
	first, control, ledger, pidfd *os.File
	packs                         []*os.File
}

// inheritedFiles returns the files of a worker that was started for its session.
func inheritedFiles(config Config) sessionFiles {
	files := sessionFiles{
		first: os.NewFile(
			ProgramFD,
			"program",
		), control: os.NewFile(ControlFD, "control"), ledger: os.NewFile(LedgerFD, "ledger"),
	}
	if config.Restore == nil {
		files.pidfd = os.NewFile(PidfdFD, "pidfd")
		return files
	}
	for i := range config.Restore.Packs {
		files.packs = append(files.packs, os.NewFile(uintptr(PacksFD+i), "pack"))
	}
	return files
}

// receivedFiles returns the files that a standby worker received with its configuration, in the
// order in which other workers inherit them.
func receivedFiles(config Config, all []*os.File) (files sessionFiles, err error) {
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

// StandbyFD is the connection (package fdpass) on which a standby worker receives its session from
// phosd. It inherits no other files.
const StandbyFD = 3

// StandbyArgument follows phosd's argument "worker" on the command line of a standby worker.
const StandbyArgument = "standby"

// Preparation is the message that starts a standby worker. The ledger's file comes with it.
type Preparation struct {
	Gpus string `json:"gpus"`
	// LedgerSlot is the worker's slot in the memory ledger, from now on.
	LedgerSlot int `json:"ledger_slot"`
	// MemoryBytes is how much memory of each GPU a standby worker accounts; 0 means what the backend
	// reports.
	MemoryBytes uint64     `json:"memory_bytes"`
	Log         config.Log `json:"log"`
}

// Prepared says that the standby worker is ready. If Error is set, it could not be prepared and
// exits.
type Prepared struct {
	// MemoryBytes is how much memory the worker holds on each GPU, by ordinal.
	MemoryBytes []uint64 `json:"memory_bytes,omitempty"`
	Error       string   `json:"error,omitempty"`
}

// ReadConfig reads the configuration that phosd wrote. It returns io.EOF for an empty pipe: phosd
// gave up.
func ReadConfig(pipe io.Reader) (Config, error) {
	var read Config
	decoder := json.NewDecoder(pipe)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return Config{}, fmt.Errorf("read worker configuration: %w", err)
	}
	return read, nil
}
