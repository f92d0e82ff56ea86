package migrate

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// checkTarget returns an error if the copy cannot be restored onto the other GPUs.
func (m *migration) checkTarget(ctx context.Context) error {
	token, err := fdtoken.Send(ctx, api.Socket(), []*os.File{m.dir})
	if err != nil {
		return err
	}
	// Its own pids are taken while it runs.
	reply, err := m.client.Daemon.CheckImage(ctx, &api.CheckImageRequest{
		Files: token, NewPids: true, ChangedFiles: "keep", Gpus: m.result.GPUs,
	})
	if err != nil {
		return api.FromStatus(err)
	}
	var reasons []string
	for _, o := range reply.GetObstacles() {
		if !o.GetHarmless() {
			reasons = append(reasons, o.GetSubject()+": "+o.GetReason())
		}
	}
	if len(reasons) > 0 {
		return fmt.Errorf("%w: it cannot move to %s: %s", api.ErrInvalid, gpuNames(m.result.GPUs), strings.Join(reasons, "; "))
	}
	return nil
}

// comeBack restores the program from the copy onto the other GPUs, or else onto those that it had.
// keep is set if the copy is all that is left of it.
func (m *migration) comeBack(ctx context.Context) (keep bool, err error) {
	wanted := m.result.GPUs
	if err = m.restore(ctx, wanted); err == nil {
		return false, nil
	}
	if m.running.IsZero() {
		m.notice(fmt.Sprintf("not restored on %s, it goes back: %v", gpuNames(wanted), err))
		again := m.restore(ctx, nil)
		if again == nil {
			return false, fmt.Errorf("pid %d runs on where it was: %w", m.pid, err)
		}
		err = fmt.Errorf("%w; and not where it was either: %w", err, again)
	}
	return true, m.kept(err)
}

// runsAgain reports whether the program was restored, and still runs.
func (m *migration) runsAgain() bool { return !m.running.IsZero() && !ended(m.program) }

// restore restores the program, and returns when all its memory is loaded.
func (m *migration) restore(ctx context.Context, gpus []uint32) error {
	manifest, err := m.manifest()
	if err != nil {
		return err
	}
	begin := &api.RestoreBegin{Detach: true, Gpus: gpus, ChangedFiles: "keep", Generation: manifest.Generation}
	files := []*os.File{m.dir}
	for i := range manifest.Endpoints {
		if end := m.files.of(&manifest.Endpoints[i]); end != nil {
			files, begin.Endpoints = append(files, end), append(begin.Endpoints, manifest.Endpoints[i].ID)
		}
	}
	if begin.Files, err = fdtoken.Send(ctx, api.Socket(), files); err != nil {
		return err
	}
	stream, err := m.client.Daemon.Restore(ctx)
	if err != nil {
		return api.FromStatus(err)
	}
	// If it fails, Recv returns the reason.
	_ = stream.Send(&api.RestoreCommand{Command: &api.RestoreCommand_Begin{Begin: begin}})
	for {
		event, err := stream.Recv()
		switch {
		case err != nil && m.runsAgain():
			return nil // phosd has ended; the next one loads what is left
		case err != nil:
			return api.FromStatus(err)
		case event.GetLoaded() != nil, event.GetEnded() != nil:
			return nil
		case event.GetRunning() != nil:
			m.running, m.result.PID = time.Now(), event.GetRunning().GetPid()
			m.program, _ = proc.Of(int(m.result.PID)) // an ended program has no identity
		}
		m.step(event.GetStep())
		m.notice(event.GetNotice())
	}
}
