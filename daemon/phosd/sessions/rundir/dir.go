package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrBusy means that another phosd holds the directory.
var ErrBusy = errors.New("another phosd uses this directory")

// Dir is an open runtime directory.
type Dir struct {
	path string
	lock *os.File
	// Warnings says what could not be had and is not needed: a tmpfs of our own.
	Warnings []string
	// NoQuota is why a new tmpfs got no limit for each user: then only phosd's own looking keeps it
	// free.
	NoQuota error

	mu sync.Mutex // one new session number at a time
}

// Limits are those of the tmpfs of the sessions.
type Limits struct {
	// TmpfsBytes is the size of all; 0 for the kernel's default.
	TmpfsBytes uint64
	// UserBytes is what the sessions of one user may hold at most, where the kernel can count that; 0
	// for no limit.
	UserBytes uint64
}

// Open makes the directory ready and takes its lock.
func Open(path string, limits Limits) (*Dir, error) {
	dir := &Dir{path: path}
	for _, each := range []struct {
		path string
		mode os.FileMode
	}{{path, 0o755}, {dir.sessions(), 0o711}, {dir.control(), 0o700}, {dir.state(), 0o700}} {
		if err := ownDirectory(each.path, each.mode); err != nil {
			return nil, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(path, "phosd.lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w%s: stop it, or choose another directory by runtime_dir", ErrBusy, holder(lock))
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close())
	}
	dir.lock = lock
	if err := errors.Join(lock.Truncate(0), named(lock)); err != nil {
		dir.Warnings = append(dir.Warnings, fmt.Sprintf("nobody will be told who holds %s: %v", path, err))
	}
	dir.mount(limits)
	return dir, nil
}

// named writes into a lock who has it, for people.
func named(lock *os.File) error {
	_, err := lock.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return err
}

// holder says who has a lock; nothing where that is not known.
func holder(lock *os.File) string {
	text := make([]byte, len("2147483647"))
	n, _ := lock.ReadAt(text, 0)
	if pid, err := strconv.Atoi(string(text[:n])); err == nil {
		return fmt.Sprintf(" (pid %d)", pid)
	}
	return ""
}

// ownDirectory makes a directory of this user's, or refuses one that is somebody else's.
func ownDirectory(path string, mode os.FileMode) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("runtime directory: %w", err)
	}
	var info unix.Stat_t
	if err := unix.Lstat(path, &info); err != nil {
		return fmt.Errorf("runtime directory %s: %w", path, err)
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR || int(info.Uid) != os.Geteuid() {
		return fmt.Errorf("runtime directory %s: not a directory of this user", path)
	}
	// MkdirAll leaves an existing directory's mode, and the umask takes bits away.
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("runtime directory: %w", err)
	}
	return nil
}

// mount gives the sessions a tmpfs of their own, so that their limit is theirs. Where that is not
// allowed, the directory serves as it is.
func (d *Dir) mount(limits Limits) {
	if mountPoint(d.sessions()) {
		return
	}
	options := "mode=0711,nr_inodes=65536"
	if limits.TmpfsBytes > 0 {
		options += fmt.Sprintf(",size=%d", limits.TmpfsBytes)
	}
	if limits.UserBytes > 0 {
		if d.NoQuota = d.mountWithQuota(options, limits.UserBytes); d.NoQuota == nil {
			return
		}
	}
	if err := unix.Mount("phos", d.sessions(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		d.Warnings = append(d.Warnings, fmt.Sprintf("sessions share the file system of %s: mount tmpfs: %v", d.path, err))
	}
}

// mountWithQuota fails on kernels without CONFIG_TMPFS_QUOTA, and in user namespaces.
func (d *Dir) mountWithQuota(options string, userBytes uint64) error {
	options += fmt.Sprintf(",usrquota,usrquota_block_hardlimit=%d", min(userBytes, 1<<62))
	return unix.Mount("phos", d.sessions(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options)
}

func mountPoint(path string) bool {
	var here, above unix.Stat_t
	if unix.Stat(path, &here) != nil || unix.Stat(filepath.Dir(path), &above) != nil {
		return false
	}
	return here.Dev != above.Dev
}

// Ledger is the path of the memory accounting.
func (d *Dir) Ledger() string { return filepath.Join(d.path, "ledger") }

// Waiting is what workers are called that wait for a session.
func (d *Dir) Waiting() string { return filepath.Join(d.sessions(), "none") }

// Work is where phosd may mount a file system for its own work.
func (d *Dir) Work() string { return filepath.Join(d.path, "work") }

// Keeper is the path of the socket at which the keeper of a restored tree is found.
func (d *Dir) Keeper(name string) string { return filepath.Join(d.control(), keeperPrefix+name) }

// Keepers are the paths at which there are any.
func (d *Dir) Keepers() (found []string, err error) {
	entries, err := os.ReadDir(d.control()) // which fails, unlike Glob, when it finds nothing because it cannot look
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), keeperPrefix) {
			found = append(found, filepath.Join(d.control(), entry.Name()))
		}
	}
	return found, err
}

const keeperPrefix = "tree-"

// Control is the path of a session's control socket.
func (d *Dir) Control(id uint64) string {
	return filepath.Join(d.control(), fmt.Sprintf("%d.sock", id))
}

// Close gives the lock back and leaves everything for the next phosd.
func (d *Dir) Close() error { return d.lock.Close() }

// Clear takes everything away that sessions needed; for a stop after which none is left. The lock
// stays, because whoever waits for it has it open, and so does the last session's number, so that
// none is used twice.
func (d *Dir) Clear() error {
	if mountPoint(d.sessions()) {
		// Detached: a program whose session was ended may still have its files mapped.
		if err := unix.Unmount(d.sessions(), unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", d.sessions(), err)
		}
	}
	var failures []error
	for _, path := range []string{d.Ledger(), d.sessions(), d.control(), d.state()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (d *Dir) sessions() string { return filepath.Join(d.path, "sessions") }

func (d *Dir) control() string { return filepath.Join(d.path, "control") }

func (d *Dir) state() string { return filepath.Join(d.path, "state") }
