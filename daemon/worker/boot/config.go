package boot

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// File descriptors that a worker inherits from phosd. A worker that restores a session has the
// lifeline in place of the program's socket, and packs in place of the pidfd.
const (
	ProgramFD = 3 // the accepted socket of the program
	ControlFD = 4 // a listening socket that only root can reach
	LedgerFD  = 5 // the memory accounting, daemon/gpu/ledger
	ConfigFD  = 6 // a pipe with Config as JSON; empty if phosd gave up
	PidfdFD   = 7 // the program

	// LifeFD is the read end of a pipe. If it ends before Attach, phosd has ended or has given up the
	// restore.
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
	// SharingDir is where the sessions of the user find each other's exports.
	SharingDir string `json:"sharing_dir"`
	// LedgerSlot is the session's slot in the memory accounting.
	LedgerSlot int `json:"ledger_slot"`
	// StartSeconds is how long the program may take for the handshake.
	StartSeconds int `json:"start_seconds"`
	// Log is phosd's; its file is the worker's standard error.
	Log config.Log `json:"log"`
	// Renumbered are GPUs by the numbers that the program knows them by, where these differ
	// (view.Renumbered).
	Renumbered map[int]int `json:"renumbered,omitempty"`
	// Restore is nil in the worker of a program that has just started. Otherwise Program is not known
	// yet, the session's files have their sizes but no content, and Attach names the program.
	Restore *Restore `json:"restore,omitempty"`
}

// Restore says what a session is restored from.
type Restore struct {
	// Tree is the hash of the session's GPU half (image.GPUHalf.Tree).
	Tree string `json:"tree"`
	// Packs is how many packs are inherited.
	Packs int `json:"packs"`
	// Eager means that all memory is loaded before the program may run.
	Eager bool `json:"eager,omitempty"`
	// Visible are the machine's ordinals of the GPUs that the program sees, in its order; nil: those
	// that it had.
	Visible []int `json:"visible,omitempty"`
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
