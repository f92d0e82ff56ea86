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

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// KernelCache caches what CRIU finds out about the kernel. As root, CRIU creates network namespaces
// for that and waits for their end, which takes two thirds of the time of a small restore. CRIU
// itself caches the result only if /run is a tmpfs, so that the cache ends with the kernel.
// Elsewhere, as in containers and small virtual machines, this cache lies in its own tmpfs, and a
// symbolic link at CRIU's path points to it. After the next boot the link dangles.
type KernelCache struct {
	// Program is CRIU's executable.
	Program string
	// Dir is the cache's directory. It is created, with a tmpfs, and only root may write there.
	Dir string
	// Link is the path where CRIU looks; empty means CRIU's default.
	Link string

	mu     sync.Mutex
	failed bool
}

// These names are built into CRIU.
const (
	ownDirectory  = "/run"
	knowledgeName = "criu.kdat"
)

// ErrNotCached is returned when the features cannot be cached. CRIU then probes the kernel each
// time.
var ErrNotCached = errors.New("cannot cache the kernel's features for CRIU")

// Provide fills the cache if it is empty. After a failure it does nothing: CRIU then probes the
// kernel each time.
func (c *KernelCache) Provide(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed || c.exists() {
		return nil
	}
	err := c.provide(ctx)
	c.failed = err != nil
	return err
}

// exists reports whether CRIU finds the cache or will create it by itself. CRIU removes a cache of
// another version.
func (c *KernelCache) exists() bool {
	_, err := os.Stat(c.linkPath())
	return err == nil || inMemory(filepath.Dir(c.linkPath()))
}

// linkPath returns the path at which CRIU looks for its cache.
func (c *KernelCache) linkPath() string {
	if c.Link != "" {
		return c.Link
	}
	return filepath.Join(ownDirectory, knowledgeName)
}

// provide has CRIU probe the kernel, stores the result and links to it from CRIU's own path.
func (c *KernelCache) provide(ctx context.Context) error {
	found, err := c.ask(ctx)
	if err != nil {
		return err
	}
	if err := c.store(found); err != nil {
		return errors.Join(err, c.removeDir())
	}
	// Remove a dangling link. If another process creates the link at the same time, both are the
	// same.
	if _, err := os.Readlink(c.linkPath()); err == nil {
		if err := c.remove(c.linkPath()); err != nil {
			return err
		}
	}
	if err := os.Symlink(c.file(), c.linkPath()); err != nil && !errors.Is(err, os.ErrExist) {
		return errors.Join(err, c.removeDir())
	}
	return nil
}

func (c *KernelCache) file() string { return filepath.Join(c.Dir, knowledgeName) }

// store writes the file, atomically, to a place that ends with the kernel.
func (c *KernelCache) store(found []byte) error {
	if err := os.Mkdir(c.Dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if !inMemory(c.Dir) {
		if err := mountTmpfs(c.Dir); err != nil {
			return fmt.Errorf("%w: mount tmpfs: %w", ErrNotCached, err)
		}
	}
	unfinished := c.file() + ".new"
	if err := os.WriteFile(unfinished, found, 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, c.file())
}

// removeDir removes the cache's directory.
func (c *KernelCache) removeDir() error {
	// If the parent directory is a tmpfs, nothing was mounted.
	if err := unix.Unmount(c.Dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) &&
		!errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", c.Dir, err)
	}
	return os.RemoveAll(c.Dir)
}

// Remove removes the cache and disables it.
func (c *KernelCache) Remove() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = true
	if to, err := os.Readlink(c.linkPath()); err == nil && to == c.file() {
		if err := c.remove(c.linkPath()); err != nil {
			return err
		}
	}
	return c.removeDir()
}

func (c *KernelCache) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ask makes CRIU probe the kernel in a namespace where CRIU caches the result.
func (c *KernelCache) ask(ctx context.Context) ([]byte, error) {
	place, err := newScratch()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotCached, err)
	}
	defer place.close()
	_, err = Run(ctx, Request{
		Program: c.Program, Type: rpc.CriuReqType_FEATURE_CHECK,
		Features:   &rpc.CriuFeatures{MemTrack: proto.Bool(true)},
		Namespaces: []*os.File{place.namespace}, Root: place.root,
	})
	if err != nil {
		return nil, err
	}
	found, err := place.read(knowledgeName)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%w: CRIU wrote no file", ErrNotCached)
	}
	return found, err
}

// scratch is a mount namespace in which CRIU's directory is an empty tmpfs. Its root is that of
// this process, which may be in a chroot.
type scratch struct{ namespace, root, directory *os.File }

func newScratch() (place *scratch, err error) {
	made := make(chan struct{})
	go func() {
		defer close(made)
		runtime.LockOSThread() // never unlocked: the thread has private mounts and must end here
		place, err = mountScratch()
	}()
	<-made
	return place, err
}

// mountScratch gives the calling thread a mount namespace with an empty tmpfs for CRIU.
func mountScratch() (*scratch, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, fmt.Errorf("private mounts: %w", err)
	}
	if err := mountTmpfs(ownDirectory); err != nil {
		return nil, fmt.Errorf("mount tmpfs: %w", err)
	}
	namespace, err := proc.OpenOwnNamespace("mnt")
	if err != nil {
		return nil, err
	}
	root, err := os.Open("/")
	if err != nil {
		return nil, errors.Join(err, namespace.Close())
	}
	directory, err := os.Open(ownDirectory)
	if err != nil {
		return nil, errors.Join(err, namespace.Close(), root.Close())
	}
	return &scratch{namespace, root, directory}, nil
}

func (s *scratch) close() {
	_ = s.namespace.Close() // all were opened for reading only
	_ = s.root.Close()
	_ = s.directory.Close()
}

// maxCacheBytes is many times the size of CRIU's cache file.
const maxCacheBytes = 64 << 10

func (s *scratch) read(name string) ([]byte, error) {
	fd, err := unix.Openat(int(s.directory.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: CRIU wrote no file: %w", ErrNotCached, err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxCacheBytes))
}

// inMemory reports whether a directory is in a tmpfs.
func inMemory(directory string) bool {
	var info unix.Statfs_t
	return unix.Statfs(directory, &info) == nil && info.Type == unix.TMPFS_MAGIC
}

// mountTmpfs mounts a small tmpfs that only root can enter.
func mountTmpfs(directory string) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return unix.Mount("phos", directory, "tmpfs", flags, "mode=0700,size=1m")
}
