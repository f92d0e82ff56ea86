package worker

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/process"
)

// What a worker inherits, by descriptor. phosd passes exactly these. A worker that makes a session again has the life line
// in the program's place and packs in the pidfd's.
const (
	ProgramFD = 3 // the accepted socket of the program
	ControlFD = 4 // a listening socket that only root can reach
	LedgerFD  = 5 // the memory accounting, daemon/ledger
	ConfigFD  = 6 // a pipe with Config as JSON; it ends without any when phosd gave up
	PidfdFD   = 7 // the program

	LifeFD  = 3 // the reading end of a pipe: its end before Attach means that phosd has ended, or wants no program attached
	PacksFD = 7 // the first of Restore.Packs packs, open for reading
)

// Config is what phosd tells a new worker.
type Config struct {
	Session uint64           `json:"session"`
	Program process.Identity `json:"program"`
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
	// Restore is nil in the worker of a program that has just started. Else Program is not known yet, the session's files
	// have their sizes and no content, and Attach brings the program.
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
