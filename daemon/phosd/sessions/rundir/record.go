package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Record is what the next phosd must know to adopt the worker of a session.
type Record struct {
	Session uint64 `json:"session"`
	Owner   Owner  `json:"owner"`
	// Groups are the supplementary groups that the program had when it connected. In the records of
	// older versions they are nil, which is not the same as empty.
	Groups  []uint32      `json:"groups"`
	Program proc.Identity `json:"program"`
	Worker  proc.Identity `json:"worker"`
	// Executable is the worker's program file.
	Executable string `json:"executable"`
	Command    string `json:"command"`
	// Gpus is the backend that the worker serves.
	Gpus    string    `json:"gpus"`
	Started time.Time `json:"started"`
	// Ledger is the session's slot in the memory accounting.
	Ledger int `json:"ledger"`
	// ArenaBytes is what the session's arena may hold; 0 in old records.
	ArenaBytes uint64 `json:"arena_bytes"`
	// Checkpoint is nil for a program that was never saved.
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
}

// Checkpoint is what became of a program's checkpoints.
type Checkpoint struct {
	// Last is when the last one was complete, zero for none; Dir and Generation say where it is.
	Last       time.Time `json:"last"`
	Dir        string    `json:"dir,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	// Tried is the time of the last attempt, and Error why it failed; empty: it did not.
	Tried time.Time `json:"tried"`
	Error string    `json:"error,omitempty"`
}

// Save writes a record atomically: after a crash it is the old one or the new one.
func (d *Dir) Save(record Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("record of session %d: %w", record.Session, err)
	}
	return replaceFile(d.recordPath(record.Session), text)
}

// Load reads the record of a session. os.ErrNotExist is returned when there is none.
func (d *Dir) Load(id uint64) (Record, error) {
	var record Record
	text, err := os.ReadFile(d.recordPath(id))
	if err != nil {
		return record, fmt.Errorf("record of session %d: %w", id, err)
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return record, fmt.Errorf("record of session %d: %w", id, err)
	}
	if record.Session != id {
		return record, fmt.Errorf("record of session %d: it says %d", id, record.Session)
	}
	return record, nil
}

// NextSession returns a number that was never used in this directory.
func (d *Dir) NextSession() (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := filepath.Join(d.path, "last")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("last session: %w", err)
	}
	// A damaged counter starts again above every existing session.
	last, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if last == 0 {
		taken, err := d.Sessions()
		if err != nil {
			return 0, err
		}
		for _, id := range taken {
			last = max(last, id)
		}
	}
	return last + 1, replaceFile(path, strconv.AppendUint(nil, last+1, 10))
}

func (d *Dir) recordPath(id uint64) string {
	return filepath.Join(d.state(), fmt.Sprintf("%d.json", id))
}

// unfinished ends the name of a file that is being written. A phosd that is killed leaves it
// behind.
const unfinished = ".new"

// replaceFile writes a file atomically: readers see the old text or the new one. It does not sync.
func replaceFile(path string, text []byte) error {
	temporary := path + unfinished
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
