package hosts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/tests/hosts/ethernet"
)

// Host is a host of a test. Its methods fail the test if they cannot do what they say.
type Host struct {
	Name    string
	Address netip.Addr

	fleet  *fleet
	t      testing.TB
	number int // from 0

	// starting is held for reading while a process starts, and for writing while the host freezes:
	// a child that is frozen before its exec would stop the threads of this process, garbage
	// collection included.
	starting sync.RWMutex

	mu     sync.Mutex
	init   *initProcess // nil while the host is off
	frozen bool
	groups groups
	clocks Clocks
	// running are commands that have been started since the last boot and not been waited for.
	running map[*Command]struct{}
	daemons []*Daemon
}

// Errors about what only a running host can do.
var (
	ErrOff    = errors.New("the host is off: Boot it")
	ErrFrozen = errors.New("the host is frozen: Thaw it")
)

func newHost(f *fleet, number int) *Host {
	return &Host{
		Name: name(number), Address: address(number), fleet: f, t: f.t, number: number, running: map[*Command]struct{}{},
	}
}

// name returns that of a host, by its number from 0.
func name(number int) string { return fmt.Sprintf("node%d", number+1) }

// Boot starts the host, which is off, with the disk that it had. Its boot id is new, and no daemon
// runs.
func (h *Host) Boot() {
	h.t.Helper()
	if err := h.boot(); err != nil {
		h.t.Fatal(err)
	}
}

// Replace starts another host in place of this one, which is off: with its name and address, and an
// empty disk.
func (h *Host) Replace() {
	h.t.Helper()
	if err := h.makeDisk(); err != nil {
		h.t.Fatal(err)
	}
	h.Boot()
}

// Kill ends the host at once, as a power cut does.
func (h *Host) Kill() {
	h.t.Helper()
	if err := h.kill(); err != nil {
		h.t.Fatal(err)
	}
}

// Freeze stops all processes of the host until Thaw. Its kernel goes on: it answers pings.
func (h *Host) Freeze() {
	h.t.Helper()
	h.starting.Lock()
	defer h.starting.Unlock()
	if err := h.setFrozen(true).Stop(context.Background()); err != nil {
		h.t.Fatalf("freeze %s: %v", h.Name, err)
	}
}

// Thaw ends Freeze.
func (h *Host) Thaw() {
	h.t.Helper()
	if err := h.setFrozen(false).Resume(); err != nil {
		h.t.Fatalf("thaw %s: %v", h.Name, err)
	}
}

// setFrozen notes whether the host is frozen, and returns the group that all its processes are in.
func (h *Host) setFrozen(frozen bool) *freezer.Group {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.frozen = frozen
	return freezer.At(h.groups.unified)
}

// Running reports whether the host is on.
func (h *Host) Running() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.init != nil
}

// boot is Boot.
func (h *Host) boot() error {
	h.mu.Lock()
	on, clocks := h.init != nil, h.clocks
	h.mu.Unlock()
	if on {
		return fmt.Errorf("boot %s: it is running", h.Name)
	}
	own, err := h.fleet.makeGroups(h.Name)
	if err != nil {
		return fmt.Errorf("boot %s: %w", h.Name, errors.Join(err, own.remove()))
	}
	init, err := h.startInit(own, clocks)
	if err != nil {
		return fmt.Errorf("boot %s: %w", h.Name, errors.Join(err, own.remove()))
	}
	h.mu.Lock()
	h.init, h.groups = init, own
	h.mu.Unlock()
	if err := h.setUp(init, clocks); err != nil {
		return fmt.Errorf("boot %s: %w", h.Name, errors.Join(err, h.kill()))
	}
	return nil
}

// startInit starts the host's first process.
func (h *Host) startInit(own groups, clocks Clocks) (*initProcess, error) {
	log, err := h.openLog("init")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return startInit(own, h.number, clocks, log)
}

// setUp gives a host that has just been started its files, its name and its network.
func (h *Host) setUp(init *initProcess, clocks Clocks) error {
	if err := h.newBootID(); err != nil {
		return err
	}
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	var tap *os.File
	err = init.do(func() (err error) {
		if err = errors.Join(h.mountAll(mounts), clocks.tell(), unix.Sethostname([]byte(h.Name))); err != nil {
			return err
		}
		tap, err = ethernet.OpenTap(device)
		return err
	})
	if err != nil {
		return err
	}
	h.fleet.network.Plug(h.Name, tap)
	return h.configureNetwork()
}

// kill is Kill. It does nothing if the host is off.
func (h *Host) kill() error {
	h.mu.Lock()
	init, own, running := h.init, h.groups, h.running
	h.init, h.frozen, h.running = nil, false, map[*Command]struct{}{}
	h.mu.Unlock()
	if init == nil {
		return nil
	}
	h.fleet.network.Unplug(h.Name)
	for command := range running {
		go command.reap()
	}
	init.kill()
	if err := own.remove(); err != nil {
		return fmt.Errorf("kill %s: %w", h.Name, err)
	}
	return nil
}

// current returns the first process of a running host.
func (h *Host) current() (*initProcess, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.init == nil {
		return nil, fmt.Errorf("%s: %w", h.Name, ErrOff)
	}
	return h.init, nil
}

// Processes returns the pids, as the test sees them, of all processes of the host.
func (h *Host) Processes() []int {
	h.t.Helper()
	h.mu.Lock()
	group := h.groups.unified
	h.mu.Unlock()
	pids, err := processesBelow(group)
	if err != nil {
		h.t.Fatal(err)
	}
	return pids
}

// Do runs a function of the test in the host's namespaces: it opens the host's files, and sockets
// in its network. The function runs on a thread of its own. What it starts in other goroutines is
// not in the host, and it must not end the test.
func (h *Host) Do(f func() error) error {
	init, err := h.current()
	if err != nil {
		return err
	}
	return init.do(f)
}

// Path returns where the test sees a file of the running host.
func (h *Host) Path(path string) string {
	h.t.Helper()
	init, err := h.current()
	if err != nil {
		h.t.Fatal(err)
	}
	return filepath.Join(fmt.Sprintf("/proc/%d/root", init.pid), path)
}
