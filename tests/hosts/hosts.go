package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts/ethernet"
)

// Most is the largest number of hosts: each has a range of pids of its own.
const Most = 9

// Options are what New may be told besides the number of hosts.
type Options struct {
	// Visible are directories that all hosts see, although they lie below a directory that is
	// private: below /tmp, for example. The source tree, what was built, and the directories that
	// testing.TB.TempDir makes are always visible.
	Visible []string
	// Programs is the directory of phos's programs that hosts run; harness.Bin if it is empty.
	Programs string
	// SmallDisks are directories with file systems of so many bytes, which each host has for itself.
	// Reboots keep them.
	SmallDisks map[string]int64
	// Seed is that of the network's random choices: which frames are lost, and how late they are.
	Seed uint64
}

// fleet is the hosts of one test.
type fleet struct {
	t testing.TB
	// name is that of its cgroups and its directory, and contains the process of the test.
	name    string
	base    string
	visible []string
	small   map[string]int64
	// programs is the directory of phos's programs.
	programs string
	network  *ethernet.Switch
	hosts    []*Host
}

// fleets counts the fleets of this process.
var fleets atomic.Uint64

// New boots hosts named node1, node2 and so on. They are killed at the end of the test.
func New(t testing.TB, count int, options Options) []*Host {
	t.Helper()
	harness.Need(t, "root", harness.Root())
	harness.Need(t, "hosts", Possible())
	if count < 1 || count > Most {
		t.Fatalf("%d hosts: at least 1, at most %d", count, Most)
	}
	f, err := newFleet(t, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.end)
	for i := range count {
		f.hosts = append(f.hosts, newHost(f, i))
	}
	if err := f.each(func(h *Host) error { return errors.Join(h.makeDisk(), h.boot()) }); err != nil {
		t.Fatal(err)
	}
	return f.hosts
}

// Possible returns nil if hosts can be made here. In most containers they cannot.
func Possible() error {
	top, err := cgroup.Top()
	if err != nil {
		return err
	}
	if err := unix.Access(top, unix.W_OK); err != nil {
		return fmt.Errorf("no cgroup can be made in %s: %w", top, err)
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("no tap devices here: %w", err)
	}
	for _, tool := range []string{"bash", "cp", "ip", "unshare", "nsenter", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	if output, err := exec.Command("unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("no namespaces can be made here: %w: %s", err, output)
	}
	return nil
}

// newFleet makes the directory of a fleet. It removes what killed processes have left.
func newFleet(t testing.TB, options Options) (*fleet, error) {
	if err := sweepOnce(); err != nil {
		t.Logf("what an earlier test has left: %v", err)
	}
	self, err := proc.Of(os.Getpid())
	if err != nil {
		return nil, err
	}
	f := &fleet{t: t, network: ethernet.NewSwitch(options.Seed), small: options.SmallDisks, programs: options.Programs}
	if f.programs == "" {
		f.programs = harness.Bin()
	}
	f.name = fmt.Sprintf("%s.%d", cgroup.Name(kind, self), fleets.Add(1))
	f.base = filepath.Join(place, f.name)
	f.visible = append(options.Visible,
		harness.Path(), harness.Bin(), f.programs, filepath.Dir(t.TempDir()), os.Getenv("PHOS_COMPILED"))
	if criu, err := harness.CRIU(); err == nil {
		f.visible = append(f.visible, filepath.Dir(filepath.Dir(criu)))
	}
	if err := os.Mkdir(f.base, 0o755); err != nil {
		return nil, err
	}
	// The disks of hosts, too, are in memory: on a disk that another test fills, etcd would wait for
	// seconds, and its leases would end.
	if err := mount("tmpfs", f.base, "tmpfs", "mode=755"); err != nil {
		return nil, err
	}
	for _, dir := range []string{f.logs(), f.shared()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
	}
	// As /tmp: any user of any host may write there.
	return f, os.Chmod(f.shared(), os.ModeSticky|0o777)
}

// place has the directories of fleets.
const place = "/var/tmp"

func (f *fleet) logs() string   { return filepath.Join(f.base, "logs") }
func (f *fleet) shared() string { return filepath.Join(f.base, "shared") }

// each does something for all hosts at once.
func (f *fleet) each(do func(*Host) error) error {
	failed := make([]error, len(f.hosts))
	var all sync.WaitGroup
	for i, host := range f.hosts {
		all.Go(func() { failed[i] = do(host) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// address returns that of a host, by its number from 0.
func address(number int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, byte(number + 1)}) }

// end kills the hosts and removes all that belongs to them.
func (f *fleet) end() {
	f.t.Helper()
	if f.t.Failed() {
		for _, host := range f.hosts {
			host.showLogs()
		}
	}
	err := f.each((*Host).kill)
	f.network.Close()
	if err := errors.Join(err, f.removeGroups(), unmountFrom(f.base), os.RemoveAll(f.base)); err != nil {
		f.t.Errorf("remove the hosts: %v", err)
	}
}
