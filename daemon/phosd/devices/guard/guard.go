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

// ErrContainer is returned when phosd runs in a container and sees only some of the machine's
// processes.
var ErrContainer = errors.New(
	"this process is in a container: processes outside of it cannot be kept from the GPUs here",
)

// majorsInterval is between two looks for majors of newly loaded modules. Devices opened in between
// are of no use without the registered major, which is always guarded.
const majorsInterval = time.Second

// Options say which processes are kept from which devices.
type Options struct {
	// Top is the cgroup whose processes, with all below, are kept out; empty: the root cgroup.
	Top string
	// Place is the cgroup below which the room is made; empty: that of this process.
	Place string
	// Devices is the file that lists majors; empty: /proc/devices.
	Devices string
	Log     *slog.Logger
}

// Guard is a cgroup, the room, and a BPF program that lets only processes in it open GPUs.
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

// Open makes the room and loads the program, which denies nothing until Begin.
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
	return g, g.updateMajors()
}

// complete fills in defaults.
func (o *Options) complete() (err error) {
	if o.Devices == "" {
		o.Devices = "/proc/devices"
	}
	if o.Top == "" {
		if o.Top, err = cgroup.Top(); err != nil {
			return err
		}
		// Only the machine's root cgroup has no type.
		if _, err := os.Stat(filepath.Join(o.Top, "cgroup.type")); err == nil {
			return ErrContainer
		}
	}
	if o.Place == "" {
		o.Place, err = cgroup.Of(os.Getpid())
	}
	return err
}

// makeRoom makes the cgroup whose processes may open GPUs.
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
	// The kernel's id of a cgroup is its directory's inode number, which is never reused.
	return g.loaded.rooms.Put(stat.Ino, owner{cgroup.Namespace(), self}.encode())
}

// Enter makes a process start in the room.
func (g *Guard) Enter(command *exec.Cmd) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.UseCgroupFD = true
	command.SysProcAttr.CgroupFD = int(g.entry.Fd())
}

// Allow moves a running process into the room.
func (g *Guard) Allow(pid int) error {
	if err := cgroup.Put(g.room, pid); err != nil {
		return fmt.Errorf("allow pid %d the GPUs: %w", pid, err)
	}
	return nil
}

// Begin attaches the program: from now on only processes in the room can open GPUs. ErrTaken is
// returned when another phosd has done so.
func (g *Guard) Begin() error {
	if err := checkAlone(); err != nil {
		return fmt.Errorf("gpus.exclusive: %w", explain(err))
	}
	attached, err := link.AttachCgroup(
		link.CgroupOptions{Path: g.options.Top, Attach: ebpf.AttachCGroupDevice, Program: g.loaded.program},
	)
	if err != nil {
		return fmt.Errorf(
			"gpus.exclusive: attach to %s; a program there may not allow others (see bpftool cgroup show): %w",
			g.options.Top,
			err,
		)
	}
	g.attached = attached
	g.running.Go(g.follow)
	return errors.Join(g.logDenials(), g.watchHolders())
}

// follow guards the majors of modules that are loaded while phosd runs.
func (g *Guard) follow() {
	tick := time.NewTicker(majorsInterval)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-tick.C:
		}
		if err := g.updateMajors(); err != nil {
			g.options.Log.Error("update guarded devices", "error", err)
		}
	}
}

// updateMajors makes the guarded majors those that are registered now.
func (g *Guard) updateMajors() error {
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
				return fmt.Errorf("stop guarding %s: %w", name, err)
			}
			delete(g.guarded, major)
		}
	}
	if after := g.guarded.String(); after != before {
		g.options.Log.Info("GPUs guarded from other processes", "devices", after)
	}
	return nil
}

// Denied returns how many opens were denied.
func (g *Guard) Denied() uint64 { return g.denied.Load() }

// Close detaches the program, and moves the processes in the room to the cgroup above it.
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
		failures = append(failures, removeRoom(g.room))
	}
	return errors.Join(failures...)
}

// removeRoom moves the processes out of a room and removes it.
func removeRoom(room string) error {
	outside := filepath.Dir(room)
	return cgroup.Dissolve(room, func(pid int) error {
		if err := cgroup.Put(outside, pid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("move pid %d to %s: %w", pid, outside, err)
		}
		return nil
	})
}
