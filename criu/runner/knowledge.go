package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/checkpoint-restore/go-criu/v7/rpc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Knowledge is what CRIU has found out about the kernel. As root it makes network namespaces for
// that and waits for their end: two thirds of the time of a small restore. It keeps the answers by
// itself, but only where /run is a tmpfs, so that they end with the kernel that gave them.
// Elsewhere, as in containers and small virtual machines, they lie in a tmpfs of ours, and a link
// leads CRIU there: after the next boot it leads nowhere.
type Knowledge struct {
	// Program is CRIU's executable.
	Program string
	// Place is where it lies: a directory that is made for it, with a tmpfs, where only root writes.
	Place string
	// Link is where CRIU looks; empty: in its own directory.
	Link string

	mu     sync.Mutex
	failed bool
}

// CRIU has this built in.
const (
	ownDirectory  = "/run"
	knowledgeName = "criu.kdat"
)

// ErrNotKept means that CRIU asks the kernel each time.
var ErrNotKept = errors.New("what CRIU knows of the kernel cannot be kept")

// Provide sees to it that CRIU finds it. What has failed once is not tried again: CRIU then asks
// the kernel each time.
func (k *Knowledge) Provide(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed || k.there() {
		return nil
	}
	err := k.provide(ctx)
	k.failed = err != nil
	return err
}

// there says that CRIU finds it, or will keep it by itself. That of another CRIU it removes.
func (k *Knowledge) there() bool {
	_, err := os.Stat(k.link())
	return err == nil || inMemory(filepath.Dir(k.link()))
}

func (k *Knowledge) link() string {
	if k.Link != "" {
		return k.Link
	}
	return filepath.Join(ownDirectory, knowledgeName)
}

func (k *Knowledge) provide(ctx context.Context) error {
	found, err := k.ask(ctx)
	if err != nil {
		return err
	}
	if err := k.keep(found); err != nil {
		return errors.Join(err, k.clear())
	}
	// One that leads nowhere is in the way. Whoever makes another one meanwhile has the same in mind.
	if _, err := os.Readlink(k.link()); err == nil {
		if err := k.remove(k.link()); err != nil {
			return err
		}
	}
	if err := os.Symlink(k.file(), k.link()); err != nil && !errors.Is(err, os.ErrExist) {
		return errors.Join(err, k.clear())
	}
	return nil
}

func (k *Knowledge) file() string { return filepath.Join(k.Place, knowledgeName) }

// keep writes it where it ends with the kernel. It is complete there, or not at all.
func (k *Knowledge) keep(found []byte) error {
	if err := os.Mkdir(k.Place, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if !inMemory(k.Place) {
		if err := unix.Mount("phos", k.Place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=1m"); err != nil {
			return fmt.Errorf("%w: mount tmpfs: %w", ErrNotKept, err)
		}
	}
	unfinished := k.file() + ".new"
	if err := os.WriteFile(unfinished, found, 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, k.file())
}

// clear takes the place away.
func (k *Knowledge) clear() error {
	// Where the directory itself is in memory, nothing was mounted.
	if err := unix.Unmount(k.Place, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", k.Place, err)
	}
	return os.RemoveAll(k.Place)
}

// Withdraw takes away what Provide has made, and has it make nothing more.
func (k *Knowledge) Withdraw() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failed = true
	if to, err := os.Readlink(k.link()); err == nil && to == k.file() {
		if err := k.remove(k.link()); err != nil {
			return err
		}
	}
	return k.clear()
}

func (k *Knowledge) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ask has CRIU ask the kernel, at a place where it keeps the answers.
func (k *Knowledge) ask(ctx context.Context) ([]byte, error) {
	place, err := newApart()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotKept, err)
	}
	defer place.close()
	_, err = Run(ctx, Request{
		Program: k.Program, Type: rpc.CriuReqType_FEATURE_CHECK, Features: &rpc.CriuFeatures{MemTrack: proto.Bool(true)},
		Namespaces: []*os.File{place.namespace},
	})
	if err != nil {
		return nil, err
	}
	found, err := place.read(knowledgeName)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: CRIU has written none", ErrNotKept)
	}
	return found, err
}

// apart is a mount namespace in which CRIU's own directory is an empty tmpfs.
type apart struct{ namespace, directory *os.File }

func newApart() (place *apart, err error) {
	made := make(chan struct{})
	go func() {
		defer close(made)
		runtime.LockOSThread() // for ever: a thread with mounts of its own ends here
		place, err = makeApart()
	}()
	<-made
	return place, err
}

func makeApart() (*apart, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, fmt.Errorf("own mounts: %w", err)
	}
	if err := unix.Mount("phos", ownDirectory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700,size=1m"); err != nil {
		return nil, fmt.Errorf("mount tmpfs: %w", err)
	}
	namespace, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return nil, err
	}
	directory, err := os.Open(ownDirectory)
	if err != nil {
		return nil, errors.Join(err, namespace.Close())
	}
	return &apart{namespace, directory}, nil
}

func (a *apart) close() {
	_ = a.namespace.Close() // both were only looked at
	_ = a.directory.Close()
}

// mostBytes is many times what CRIU writes.
const mostBytes = 64 << 10

func (a *apart) read(name string) ([]byte, error) {
	fd, err := unix.Openat(int(a.directory.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: CRIU has written none: %w", ErrNotKept, err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, mostBytes))
}

// inMemory says that what lies in a directory does not outlive the kernel.
func inMemory(directory string) bool {
	var info unix.Statfs_t
	return unix.Statfs(directory, &info) == nil && info.Type == unix.TMPFS_MAGIC
}
