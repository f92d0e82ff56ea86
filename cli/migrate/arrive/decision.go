package arrive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/cli/migrate/wire"
	"github.com/phos-gpu/phos/internal/linux/privatefile"
	"github.com/phos-gpu/phos/internal/ticks"
)

// decision is whether a program runs here: a directory with one of three files. Whoever renames
// open first decides: to taken, and the program runs here, or to refused, and it never does. It
// outlives the connection, the image and this process: the source asks for it if it hears of no
// end.
type decision struct{ dir string }

// Names in the directory of a decision.
const (
	openName    = "open"
	takenName   = "taken"
	refusedName = "refused"
	// runningName holds the pid of the program.
	runningName = "running"
)

// keepTime is how long a decision is kept that no source has asked for.
const keepTime = 30 * 24 * time.Hour

// answerTime is how long an answer waits for a program that is about to run, lookTime the time
// between two looks.
const (
	answerTime = 20 * time.Second
	lookTime   = 50 * time.Millisecond
)

// decisionsDir is where the user's decisions are: not in memory, which may be cleared when the user
// logs out.
func decisionsDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("directory for the state of the move: %w", err)
		}
		state = filepath.Join(home, ".local/state")
	}
	return filepath.Join(state, "phos/moves"), nil
}

// newDecision makes a decision that is open, and forgets those that are old.
func newDecision() (*decision, error) {
	all, err := decisionsDir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(all, 0o700); err != nil {
		return nil, fmt.Errorf("directory for the state of the move: %w", err)
	}
	old, err := os.ReadDir(all)
	for _, each := range old {
		if info, err := each.Info(); err == nil && time.Since(info.ModTime()) > keepTime {
			_ = os.RemoveAll(filepath.Join(all, each.Name())) // the next one tries again
		}
	}
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(all, "")
	if err != nil {
		return nil, fmt.Errorf("directory for the state of the move: %w", err)
	}
	d := &decision{dir}
	if err := os.WriteFile(d.file(openName), nil, 0o600); err != nil {
		return nil, errors.Join(err, d.forget())
	}
	return d, nil
}

// decisionNamed returns a decision by its name.
func decisionNamed(name string) (*decision, error) {
	if name != filepath.Base(name) || !filepath.IsLocal(name) || name == "." {
		return nil, fmt.Errorf("%q is not the name of a move", name)
	}
	all, err := decisionsDir()
	return &decision{filepath.Join(all, name)}, err
}

// name is by what the source asks.
func (d *decision) name() string { return filepath.Base(d.dir) }

func (d *decision) file(name string) string { return filepath.Join(d.dir, name) }

func (d *decision) rename(from, to string) error { return os.Rename(d.file(from), d.file(to)) }

// is reports whether a file is there.
func (d *decision) is(name string) bool {
	_, err := os.Stat(d.file(name))
	return err == nil
}

// take lets the program run here, unless it was refused before.
func (d *decision) take() error {
	if err := d.rename(openName, takenName); err != nil {
		return fmt.Errorf("the source has given this move up: %w", err)
	}
	return nil
}

// refuse makes sure that the program never runs here. It fails if it was taken.
func (d *decision) refuse() error {
	if err := d.rename(openName, refusedName); err != nil && !d.is(refusedName) {
		return err
	}
	return nil
}

// undo refuses what was taken: phosd has said that it has undone the restore.
func (d *decision) undo() error { return d.rename(takenName, refusedName) }

// runs writes down that the program runs.
func (d *decision) runs(pid uint32) error {
	return privatefile.Write(d.file(runningName), []byte(strconv.FormatUint(uint64(pid), 10)))
}

// forget removes the decision: the source knows how the move has ended.
func (d *decision) forget() error { return os.RemoveAll(d.dir) }

// answer says how the move has ended. If that is open, the program never runs here. Nothing follows
// from a decision that is not there: this may be another machine of that name.
func (d *decision) answer(ctx context.Context) (wire.Message, error) {
	switch err := d.refuse(); {
	case err == nil:
		return wire.Message{Kind: wire.Absent}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return wire.Message{}, err
	case !d.is(takenName):
		return wire.Message{Kind: wire.Unknown}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	for range ticks.Every(ctx, lookTime) {
		text, err := os.ReadFile(d.file(runningName))
		if err == nil {
			pid, err := strconv.ParseUint(string(text), 10, 32)
			return wire.Message{Kind: wire.Running, PID: uint32(pid)}, err
		}
		if d.is(refusedName) { // its restore was undone
			return wire.Message{Kind: wire.Absent}, nil
		}
	}
	return wire.Message{}, errors.New("the program was about to run here, and does not: phosd's log says why")
}
