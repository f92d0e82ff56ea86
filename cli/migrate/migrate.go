package migrate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// migration is one move of a program.
type migration struct {
	pid         uint
	list, below string
	asJSON      bool
	away        // for a move to another machine

	client  *api.Client
	bar     *terminal.Bar // nil with asJSON
	program proc.Identity
	dir     *os.File // of the copy
	files   files
	running time.Time // when the program ran again; zero: it does not yet
	result  result
}

// away are the options of a move to another machine.
type away struct {
	to, shell, posCLI, remoteDir string
	newPids                      bool
	pause                        time.Duration
	bandwidth                    config.Size
}

// move moves the program. On failure it runs where it was, or stands in an image that the error
// names.
func (m *migration) move(ctx context.Context) (err error) {
	if m.result.GPUs, err = launch.Ordinals(ctx, m.client, m.list); err != nil {
		return err
	}
	if err := m.checkProgram(ctx); err != nil {
		return err
	}
	return m.withCopy(func() (bool, error) { return m.moveBy(ctx) })
}

// withCopy calls move with a directory for the copy, and removes it, unless it is to be kept.
func (m *migration) withCopy(move func() (keep bool, err error)) (err error) {
	if err := m.makeDirectory(); err != nil {
		return err
	}
	keep, err := move()
	err = errors.Join(err, m.dir.Close())
	if !keep {
		err = errors.Join(err, os.RemoveAll(m.dir.Name()))
	}
	return err
}

// moveBy moves the program to other GPUs by its copy. keep is set if that is all that is left.
func (m *migration) moveBy(ctx context.Context) (keep bool, err error) {
	copied, err := m.save(ctx, &saveOrder{})
	if err != nil {
		return keep, err
	}
	manifest, err := m.manifest()
	if err != nil {
		return keep, err
	}
	if err := m.checkTarget(ctx); err != nil {
		return false, fmt.Errorf("pid %d runs on where it was: %w", m.pid, err)
	}
	defer m.files.close()
	if err := m.files.open(manifest); err != nil {
		return false, fmt.Errorf("pid %d runs on where it was: %w", m.pid, err)
	}
	rest, err := m.save(ctx, &saveOrder{stop: true})
	if err != nil {
		return m.afterFailure(copied.GetGeneration(), err)
	}
	stopped := time.Now().Add(-time.Duration(rest.GetPauseMicroseconds()) * time.Microsecond)
	keep, err = m.comeBack(context.WithoutCancel(ctx))
	m.result.StoodStillMicroseconds = uint64(m.running.Sub(stopped).Microseconds())
	m.result.CopiedBytes, m.result.RestBytes = copied.GetWrittenBytes(), rest.GetWrittenBytes()
	return keep, err
}

// launchVariable is in the environments of the processes of launches.
const launchVariable = "PHOS_LAUNCH_ID"

// identify finds the program, and refuses those of launches.
func (m *migration) identify() (err error) {
	if m.program, err = proc.Of(int(m.pid)); err != nil {
		return fmt.Errorf("%w: pid %d", api.ErrNoProgram, m.pid)
	}
	variables, err := m.program.Environment()
	if id := variables[launchVariable]; err == nil && id != "" {
		return fmt.Errorf("pid %d belongs to launch %s, whose node would take it for ended; "+
			"move the launch instead: phos migrate %s, or phos suspend %s", m.pid, id, id, id)
	}
	return nil
}

// checkProgram refuses what cannot be moved so, before anything is copied.
func (m *migration) checkProgram(ctx context.Context) error {
	if err := m.identify(); err != nil {
		return err
	}
	for begun := time.Now(); ; {
		status, err := m.client.Daemon.Status(ctx, &api.StatusRequest{})
		if err != nil {
			return api.FromStatus(err)
		}
		err = m.checkRoom(status)
		if !errors.Is(err, errNoRoom) || time.Since(begun) > roomTime {
			return err
		}
		select {
		case <-time.After(lookTime):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// roomTime is how long GPUs may take to have room: a program that has just ended may hold some.
// lookTime is the time between two looks.
const (
	roomTime = 2 * time.Second
	lookTime = 20 * time.Millisecond
)

// errNoRoom is returned when the GPUs have no room for the program.
var errNoRoom = errors.New("no room")

// checkRoom refuses GPUs that have no room for the program, or that it is on already. Which of them
// takes what is checked later, when its image says what it has on each.
func (m *migration) checkRoom(status *api.StatusReply) error {
	has := m.memory(status)
	var needed, free, elsewhere uint64
	for ordinal, bytes := range has {
		needed += bytes
		if !slices.Contains(m.result.GPUs, ordinal) {
			elsewhere += bytes
		}
	}
	if needed > 0 && elsewhere == 0 && len(m.result.GPUs) <= len(has) {
		return fmt.Errorf("pid %d is on %s already", m.pid, gpuNames(m.result.GPUs))
	}
	for _, gpu := range status.GetGpus() {
		if slices.Contains(m.result.GPUs, gpu.GetIndex()) {
			others := gpu.GetUsedBytes() - min(gpu.GetUsedBytes(), has[gpu.GetIndex()])
			free += gpu.GetMemoryBytes() - min(gpu.GetMemoryBytes(), others)
		}
	}
	if needed > free {
		return fmt.Errorf("%w: pid %d has %s on GPUs, and %s of %s are free: pos_cli --status lists what uses them",
			errNoRoom, m.pid, humanize.Bytes(needed), humanize.Bytes(free), gpuNames(m.result.GPUs))
	}
	return nil
}

// memory returns what the program and its descendants have on each GPU.
func (m *migration) memory(status *api.StatusReply) map[uint32]uint64 {
	has := map[uint32]uint64{}
	for _, p := range status.GetPrograms() {
		if p.GetPid() != uint32(m.pid) && !proc.Descends(int(p.GetPid()), int(m.pid)) {
			continue
		}
		for _, memory := range p.GetDescription().GetProgress().GetMemory() {
			if memory.GetBytes() > 0 {
				has[memory.GetGpu()] += memory.GetBytes()
			}
		}
	}
	return has
}

// ended reports whether a program runs no longer.
func ended(program proc.Identity) bool {
	_, zombie := program.Zombie()
	return zombie || program.Gone()
}

// afterFailure says what has become of a program that could not be saved for good: it runs on, has
// ended by itself, or stands in an image that is newer than its last copy. keep is set for the
// latter.
func (m *migration) afterFailure(copied uint64, failure error) (keep bool, err error) {
	if !ended(m.program) {
		return false, failure
	}
	manifest, err := m.manifest()
	if err != nil {
		return true, m.kept(errors.Join(failure, err))
	}
	if manifest.Generation > copied {
		return true, m.kept(failure)
	}
	return false, fmt.Errorf("pid %d has ended by itself, before it was moved", m.pid)
}

// kept says where the program is that runs no longer. It does not wrap the error: of a phosd that
// has ended, pos_cli would only say that programs keep running.
func (m *migration) kept(err error) error {
	return fmt.Errorf("%s; the program has ended, and is in %s: pos_cli --restore --dir %s",
		err.Error(), m.dir.Name(), m.dir.Name())
}

// makeDirectory makes the directory of the copy.
func (m *migration) makeDirectory() error {
	path, err := os.MkdirTemp(m.below, fmt.Sprintf("phos-migrate-%d-", m.pid))
	if err != nil {
		return fmt.Errorf("directory for the copy: %w; choose another one with --dir", err)
	}
	if path, err = filepath.Abs(path); err == nil {
		m.dir, err = os.Open(path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// manifest reads that of the newest copy.
func (m *migration) manifest() (*image.Manifest, error) {
	opened, err := store.Open(m.dir)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return opened.Inspect(0)
}

// step shows progress.
func (m *migration) step(step *api.Step) {
	if m.bar != nil && step != nil {
		m.bar.Step(terminal.PhaseText(step.GetPhase()), step.GetDoneBytes(), step.GetTotalBytes())
	}
}

// notice shows what phosd wants the user to know.
func (m *migration) notice(text string) {
	switch {
	case text == "":
	case m.bar == nil:
		m.result.Notices = append(m.result.Notices, humanize.Printable(text))
	default:
		m.bar.Say(humanize.Printable(text))
	}
}
