package worker

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/wire"
)

// countedArena accounts for the memory of the arena in the ledger, so that all programs of a user
// together stay within the user's share.
type countedArena struct {
	*wire.Arena
	worker *Worker
}

// counted returns the arena for a session. A worker that was given its backend, as by tests, has no
// ledger.
func (w *Worker) counted(arena *wire.Arena) core.Arena {
	if w.accounts == nil {
		return arena
	}
	return countedArena{arena, w}
}

// Reserve allocates pages, or returns abi.OutOfMemory.
func (a countedArena) Reserve(offset, bytes uint64) error {
	accounts, slot := a.worker.accounts, a.worker.config.LedgerSlot
	var at unix.Statfs_t
	free := bytes // without an answer, the file system alone limits it
	if unix.Statfs(a.worker.config.ArenaPath, &at) == nil {
		free = at.Bavail * uint64(at.Bsize)
	}
	if err := accounts.ReserveHost(slot, bytes, free); err != nil {
		a.worker.logRefusal(a.worker.log, err)
		return err
	}
	err := a.Arena.Reserve(offset, bytes)
	if err != nil {
		accounts.ReleaseHost(slot, bytes)
	}
	return err
}

// Punch frees pages.
func (a countedArena) Punch(offset, bytes uint64) error {
	err := a.Arena.Punch(offset, bytes)
	if err == nil {
		a.worker.accounts.ReleaseHost(a.worker.config.LedgerSlot, bytes)
	}
	return err
}

// refusalInterval is the least time between two lines of the log about refused memory: a program
// may try again and again.
const refusalInterval = 10 * time.Second

// refusals limits lines of the log.
type refusals struct {
	mu   sync.Mutex // guards last
	last time.Time
}

// logRefusal logs which limit has refused memory to the program, which gets only a code.
func (w *Worker) logRefusal(log *slog.Logger, err error) {
	w.refusals.mu.Lock()
	defer w.refusals.mu.Unlock()
	if time.Since(w.refusals.last) < refusalInterval {
		return
	}
	w.refusals.last = time.Now()
	log.Warn("memory refused", "why", err)
}
