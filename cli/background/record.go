package background

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// record keeps which process the daemon is.
func (p Program) record(pid int) error {
	id, err := proc.Of(pid)
	if err != nil {
		return err
	}
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.Record), 0o755); err != nil {
		return fmt.Errorf("record of %s: %w", p.Name, err)
	}
	return os.WriteFile(p.Record, text, 0o644)
}

// Running returns the process of the daemon. The error is ErrNotRunning if no process is recorded,
// or if it has ended.
func (p Program) Running() (*proc.Handle, proc.Identity, error) {
	text, err := os.ReadFile(p.Record)
	if errors.Is(err, os.ErrNotExist) {
		return nil, proc.Identity{}, fmt.Errorf("%s %w", p.Name, ErrNotRunning)
	}
	if err != nil {
		return nil, proc.Identity{}, fmt.Errorf("record of %s: %w", p.Name, err)
	}
	var id proc.Identity
	if err := json.Unmarshal(text, &id); err != nil || id.PID <= 1 {
		return nil, id, fmt.Errorf("record of %s: %s is damaged; end the process by hand and remove the file", p.Name, p.Record)
	}
	handle, err := proc.Open(id)
	if errors.Is(err, proc.ErrGone) {
		return nil, id, fmt.Errorf("%s %w", p.Name, ErrNotRunning)
	}
	return handle, id, err
}

// Stop ends the daemon by SIGTERM and waits until it has ended. The error is ErrNotRunning if it
// does not run.
func (p Program) Stop(ctx context.Context) error {
	handle, _, err := p.Running()
	if err != nil {
		return err
	}
	defer handle.Close()
	if err := handle.Signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- handle.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("stop %s: %w", p.Name, err)
		}
		return os.Remove(p.Record)
	case <-ctx.Done():
		return fmt.Errorf("%s has been told to stop and still runs; its log is %s: %w", p.Name, p.Log, ctx.Err())
	}
}
