package sessions

import (
	"context"
	"os"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

// useLogTimeout is how long a worker may take to change its log.
const useLogTimeout = 10 * time.Second

// UseLog hands phosd's log to all workers, after it was opened again. A worker that does not take
// it, as one of an older phosd, writes to the old file until its program ends.
func (m *Sessions) UseLog(ctx context.Context) {
	for _, s := range m.All() {
		if err := m.useLog(ctx, s); err != nil {
			m.log.Warn("worker still writes to the old log", "session", s.record.Session, "pid", s.PID(), "error", err)
		}
	}
	m.replaceStandby()
}

// useLog hands phosd's log to a worker.
func (m *Sessions) useLog(ctx context.Context, s *Session) error {
	ctx, cancel := context.WithTimeout(ctx, useLogTimeout)
	defer cancel()
	token, err := fdtoken.Send(ctx, s.controlPath, []*os.File{m.options.WorkerLog})
	if err != nil {
		return err
	}
	_, err = s.Worker().UseLog(ctx, &api.UseLogRequest{Files: token})
	return err
}

// replaceStandby ends the workers that are in standby now. Others that have the new log follow.
func (m *Sessions) replaceStandby() {
	if m.pool == nil {
		return
	}
	count, _ := m.pool.Ready()
	for range count {
		if worker := m.pool.Take(); worker != nil {
			m.pool.Release(worker)
		}
	}
}
