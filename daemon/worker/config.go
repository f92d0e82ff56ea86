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

// What a worker inherits, by descriptor. phosd passes exactly these. A worker that makes a session
// again has the life line in the program's place and packs in the pidfd's.
const (
	ProgramFD = 3 // the accepted socket of the program
	ControlFD = 4 // a listening socket that only root can reach
	LedgerFD  = 5 // the memory accounting, daemon/gpu/ledger
	ConfigFD  = 6 // a pipe with Config as JSON; it ends without any when phosd gave up
	PidfdFD   = 7 // the program

	// the reading end of a pipe: its end before Attach means that phosd has ended, or wants no program
	// attached
	LifeFD  = 3
	PacksFD = 7 // the first of Restore.Packs packs, open for reading
)

// Config is what phosd tells a new worker.
type Config struct {
	Session uint64        `json:"session"`
	Program proc.Identity `json:"program"`
	// UID, GID and Groups are the program's; the worker becomes this user.
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
	// Gpus names the backend: "soft:1".
	Gpus string `json:"gpus"`
	// SessionPath and ArenaPath are the session's files, which exist.
	SessionPath string `json:"session_path"`
	ArenaPath   string `json:"arena_path"`
	ArenaBytes  uint64 `json:"arena_bytes"`
	// LedgerSlot is the session's place in the memory accounting.
	LedgerSlot int `json:"ledger_slot"`
	// StartSeconds is how long the program may take for the handshake.
	StartSeconds int `json:"start_seconds"`
	// Log is phosd's; the file of it is the worker's standard error.
	Log config.Log `json:"log"`
	// Restore is nil in the worker of a program that has just started. Else Program is not known yet,
	// the session's files have their sizes and no content, and Attach brings the program.
	Restore *Restore `json:"restore,omitempty"`
}

// Restore says what a session is made of that has been before.
type Restore struct {
	// Tree names the content that holds the session's GPU half (image.GPUHalf.Tree).
	Tree string `json:"tree"`
	// Packs is how many packs are inherited.
	Packs int `json:"packs"`
	// Eager: all memory is loaded before the program may run.
	Eager bool `json:"eager,omitempty"`
}

// handed are the files that a worker is given for its session: inherited, or sent to one that has
// waited.
type handed struct {
	// first is the program's socket, or the life line; pidfd is the program, and nil in a worker that
	// makes a session again.
	first, control, ledger, pidfd *os.File
	packs                         []*os.File
}

// inherited are the files of a worker that was started for its session.
func inherited(config Config) handed {
	files := handed{
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

// sent are the files that come with the configuration of a worker that has waited, in the order in
// which others inherit them.
func sent(config Config, all []*os.File) (files handed, err error) {
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

// StandbyFD is where a worker that waits for its session hears from phosd, by package parcel. It
// has no other files.
const StandbyFD = 3

// StandbyArgument follows phosd's argument "worker" in a worker that waits.
const StandbyArgument = "standby"

// Preparation is what a worker is told that shall wait. The ledger comes with it.
type Preparation struct {
	Gpus string `json:"gpus"`
	// LedgerSlot is its place in the memory accounting, from now on.
	LedgerSlot int `json:"ledger_slot"`
	// MemoryBytes is what it accounts of each GPU while it waits; 0: what the backend says that it
	// holds.
	MemoryBytes uint64     `json:"memory_bytes"`
	Log         config.Log `json:"log"`
}

// Prepared says that the worker waits, or, with a reason, that it could not be made ready and ends.
type Prepared struct {
	// MemoryBytes is what it holds of each GPU, in their order.
	MemoryBytes []uint64 `json:"memory_bytes,omitempty"`
	Error       string   `json:"error,omitempty"`
}

// ReadConfig reads what phosd wrote. An empty pipe means that phosd gave up: io.EOF.
func ReadConfig(pipe io.Reader) (Config, error) {
	var read Config
	decoder := json.NewDecoder(pipe)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return Config{}, fmt.Errorf("read worker configuration: %w", err)
	}
	return read, nil
}
