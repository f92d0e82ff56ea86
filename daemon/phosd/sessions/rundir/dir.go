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
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy means that another phosd holds the directory.
var ErrBusy = errors.New("another phosd uses this directory")

// Dir is an open runtime directory.
type Dir struct {
	path string
	lock *os.File
	// Warnings say what is missing and not required: a tmpfs of our own.
	Warnings []string
	// NoQuota is why a new tmpfs got no limit for each user. Then phosd has to watch it.
	NoQuota error

	mu sync.Mutex // held while a session number is taken
}

// Limits are the limits of the sessions' tmpfs.
type Limits struct {
	// TmpfsBytes is the size of all; 0 for the kernel's default.
	TmpfsBytes uint64
	// UserBytes is the most that the sessions of one user may hold, where the kernel can count that; 0
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
	if err := takeLock(lock); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("%w%s: stop it, or choose another directory by runtime_dir", ErrBusy, holder(lock))
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), lock.Close())
	}
	dir.lock = lock
	if err := errors.Join(lock.Truncate(0), writeHolder(lock)); err != nil {
		dir.Warnings = append(dir.Warnings, fmt.Sprintf("the lock of %s does not name its holder: %v", path, err))
	}
	dir.mount(limits)
	return dir, nil
}

// forkTime is how long a child of a killed phosd may take from fork to exec. Until then it has the
// lock open too.
const forkTime = time.Second

// takeLock takes a lock. While the process that it names has ended, a child of that process holds
// it, for a moment.
func takeLock(lock *os.File) error {
	for begun := time.Now(); ; {
		err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		pid := holderPID(lock)
		if !errors.Is(err, unix.EWOULDBLOCK) || pid == 0 || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) ||
			time.Since(begun) > forkTime {
			return err
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // the kernel has no event for it
	}
}

// writeHolder writes this process's pid into a lock.
func writeHolder(lock *os.File) error {
	_, err := lock.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return err
}

// holderPID returns the pid in a lock, or 0.
func holderPID(lock *os.File) int {
	text := make([]byte, len("2147483647"))
	n, _ := lock.ReadAt(text, 0)
	pid, _ := strconv.Atoi(string(text[:n])) // 0 if there is none
	return pid
}

// holder names the process that holds a lock, or returns "".
func holder(lock *os.File) string {
	if pid := holderPID(lock); pid != 0 {
		return fmt.Sprintf(" (pid %d)", pid)
	}
	return ""
}

// ownDirectory makes a directory, or fails if it exists and is another user's.
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

// mount mounts a tmpfs for the sessions, so that they have a limit of their own. Where mounting is
// not allowed, the directory serves as it is.
func (d *Dir) mount(limits Limits) {
	if isMountPoint(d.sessions()) {
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

// isMountPoint reports whether path is on another file system than its parent.
func isMountPoint(path string) bool {
	var here, above unix.Stat_t
	if unix.Stat(path, &here) != nil || unix.Stat(filepath.Dir(path), &above) != nil {
		return false
	}
	return here.Dev != above.Dev
}

// Ledger returns the path of the memory accounting.
func (d *Dir) Ledger() string { return filepath.Join(d.path, "ledger") }

// StandbyTitle is what lists of processes show for a standby worker.
func (d *Dir) StandbyTitle() string { return filepath.Join(d.sessions(), "none") }

// Work returns where phosd may mount a file system for its own work.
func (d *Dir) Work() string { return filepath.Join(d.path, "work") }

// Restorer returns the path of the socket of a restored tree's restorer.
func (d *Dir) Restorer(name string) string { return filepath.Join(d.control(), restorerPrefix+name) }

// Restorers lists the paths of all restorers' sockets.
func (d *Dir) Restorers() (found []string, err error) {
	entries, err := os.ReadDir(d.control()) // unlike Glob, it fails if it cannot read the directory
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), restorerPrefix) {
			found = append(found, filepath.Join(d.control(), entry.Name()))
		}
	}
	return found, err
}

const restorerPrefix = "tree-"

// Control returns the path of a session's control socket.
func (d *Dir) Control(id uint64) string {
	return filepath.Join(d.control(), fmt.Sprintf("%d.sock", id))
}

// Sharing returns the directory in which a user's sessions bind the sockets of their exports.
func (d *Dir) Sharing(uid uint32) string {
	return filepath.Join(d.sharing(), strconv.FormatUint(uint64(uid), 10))
}

// createSharing makes a user's directory for sharing, unless it exists. No other user can bind
// there.
func (d *Dir) createSharing(owner Owner) error {
	path := d.Sharing(owner.UID)
	if err := os.Mkdir(d.sharing(), 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chmod(d.sharing(), 0o711); err != nil { // whatever the umask
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Also if it exists: a phosd that was killed in between has left it to root. Only root can have
	// made it.
	return os.Lchown(path, int(owner.UID), int(owner.GID))
}

// Close releases the lock and leaves everything for the next phosd.
func (d *Dir) Close() error { return d.lock.Close() }

// RemoveAll deletes what sessions need, at a stop after which no session is left. The lock stays,
// because a phosd that waits for it has it open. The last session's number stays, so that no number
// is used twice. Sockets of restorers stay, which the next phosd finds: a restored tree may have no
// session, or its restorer may still be exiting.
func (d *Dir) RemoveAll() error {
	if isMountPoint(d.sessions()) {
		// Detached: a program whose session was ended may still have its files mapped.
		if err := unix.Unmount(d.sessions(), unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", d.sessions(), err)
		}
	}
	failures := []error{os.RemoveAll(d.sharing())}
	for _, path := range []string{d.Ledger(), d.sessions(), d.control(), d.state()} {
		err := os.Remove(path)
		if restorers, unread := d.Restorers(); path == d.control() && unread == nil && len(restorers) > 0 {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (d *Dir) sharing() string { return filepath.Join(d.path, "sharing") }

func (d *Dir) sessions() string { return filepath.Join(d.path, "sessions") }

func (d *Dir) control() string { return filepath.Join(d.path, "control") }

func (d *Dir) state() string { return filepath.Join(d.path, "state") }
