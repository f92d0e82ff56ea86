package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrContainer means that phosd sees only a part of the machine's processes.
var ErrContainer = errors.New(
	"this process is in a container: processes outside of it cannot be kept from the GPUs here",
)

// lookTime is between looks for majors that a module has brought. What can be opened in between is
// of no use: without the registered major, which is always guarded, the others do nothing.
const lookTime = time.Second

// Options say whom a guard keeps from what.
type Options struct {
	// Top is the cgroup whose processes are kept out, with all those below; empty: the topmost one,
	// that is everybody.
	Top string
	// Place is the cgroup below which the room is made; empty: this process's own.
	Place string
	// Devices is the list of majors; empty: /proc/devices.
	Devices string
	Log     *slog.Logger
}

// Guard is a room, and a program in the kernel that lets only those in it open GPUs.
type Guard struct {
	options Options
	loaded  *loaded
	room    string
	// entry is the room as an open file.
	entry    *os.File
	attached link.Link
	denied   atomic.Uint64
	holders  holders
	stop     chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex // guards guarded
	guarded majors
}

// Open makes the room and the program. Nobody is kept from anything until Begin.
func Open(options Options) (_ *Guard, err error) {
	g := &Guard{options: options, stop: make(chan struct{}), guarded: majors{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("gpus.exclusive: %w", err), g.Close())
		}
	}()
	if err := g.options.complete(); err != nil {
		return nil, err
	}
	if g.loaded, err = load(); err != nil {
		return nil, err
	}
	self, err := proc.Of(os.Getpid())
	if err != nil {
		return nil, err
	}
	if err := g.makeRoom(self); err != nil {
		return nil, err
	}
	return g, g.look()
}

func (o *Options) complete() (err error) {
	if o.Devices == "" {
		o.Devices = "/proc/devices"
	}
	if o.Top == "" {
		if o.Top, err = cgroup.Top(); err != nil {
			return err
		}
		// Only the machine's topmost cgroup has no type.
		if _, err := os.Stat(filepath.Join(o.Top, "cgroup.type")); err == nil {
			return ErrContainer
		}
	}
	if o.Place == "" {
		o.Place, err = cgroup.Of(os.Getpid())
	}
	return err
}

func (g *Guard) makeRoom(self proc.Identity) (err error) {
	path := filepath.Join(g.options.Place, cgroup.Name(roomKind, self))
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	g.room = path
	if g.entry, err = os.Open(path); err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(g.entry.Fd()), &stat); err != nil {
		return err
	}
	// The number by which the kernel knows a cgroup is its directory's, and never used again.
	return g.loaded.rooms.Put(stat.Ino, owner{cgroup.Namespace(), self}.encode())
}

// Enter has a process begin in the room.
func (g *Guard) Enter(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.UseCgroupFD = true
	command.SysProcAttr.CgroupFD = int(g.entry.Fd())
}

// Admit moves a process that runs into the room.
func (g *Guard) Admit(pid int) error {
	if err := cgroup.Put(g.room, pid); err != nil {
		return fmt.Errorf("let pid %d to the GPUs: %w", pid, err)
	}
	return nil
}

// Begin keeps everybody out who is not in the room, from now on. It returns ErrTaken where another
// phosd does so.
func (g *Guard) Begin() error {
	if err := alone(); err != nil {
		return fmt.Errorf("gpus.exclusive: %w", explain(err))
	}
	attached, err := link.AttachCgroup(
		link.CgroupOptions{Path: g.options.Top, Attach: ebpf.AttachCGroupDevice, Program: g.loaded.program},
	)
	if err != nil {
		return fmt.Errorf(
			"gpus.exclusive: attach to %s, where a program may be that admits no other (bpftool cgroup show): %w",
			g.options.Top,
			err,
		)
	}
	g.attached = attached
	g.running.Go(g.follow)
	return errors.Join(g.listen(), g.note())
}

// follow guards the majors of modules that are loaded while phosd runs.
func (g *Guard) follow() {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-tick.C:
		}
		if err := g.look(); err != nil {
			g.options.Log.Error("guard the GPUs", "error", err)
		}
	}
}

// look makes the guarded majors those that there are.
func (g *Guard) look() error {
	now, err := readMajors(g.options.Devices)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.guarded.String()
	for major, name := range now {
		if g.guarded[major] == "" {
			if err := g.loaded.majors.Put(major, uint8(1)); err != nil {
				return fmt.Errorf("guard %s: %w", name, err)
			}
		}
		g.guarded[major] = name
	}
	for major, name := range g.guarded {
		if now[major] == "" {
			if err := g.loaded.majors.Delete(major); err != nil {
				return fmt.Errorf("no longer guard %s: %w", name, err)
			}
			delete(g.guarded, major)
		}
	}
	if after := g.guarded.String(); after != before {
		g.options.Log.Info("other processes are kept from opening GPUs", "devices", after)
	}
	return nil
}

// Denied counts the opens that were refused.
func (g *Guard) Denied() uint64 { return g.denied.Load() }

// Close lets everybody open GPUs again, and moves who is in the room back to where it is.
func (g *Guard) Close() error {
	var failures []error
	close(g.stop)
	if g.attached != nil {
		failures = append(failures, g.attached.Close())
	}
	g.running.Wait()
	if g.loaded != nil {
		failures = append(failures, g.loaded.close())
	}
	if g.entry != nil {
		failures = append(failures, g.entry.Close())
	}
	if g.room != "" {
		failures = append(failures, leave(g.room))
	}
	return errors.Join(failures...)
}

// leave removes a room.
func leave(room string) error {
	outside := filepath.Dir(room)
	return cgroup.Dissolve(room, func(pid int) error {
		if err := cgroup.Put(outside, pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("move pid %d to %s: %w", pid, outside, err)
		}
		return nil
	})
}
