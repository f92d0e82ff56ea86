package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// useInterval is the time between two looks at what a directory takes. A look takes at most one
	// part in usePart of the time.
	useInterval = time.Second
	usePart     = 10
	// blockBytes is the unit of st_blocks.
	blockBytes = 512
)

// Bounds of a look at a directory: its user can make any number of files in it.
const (
	maxDepth   = 16
	batchFiles = 256
)

// errDeep is returned for a directory that no image has.
var errDeep = fmt.Errorf("directories are nested more than %d deep", maxDepth)

// UsedBytes returns what the files below a directory take of the disk. A user may own the directory
// and change it at the same time, so it follows no link and leaves the directory's file system
// alone.
func UsedBytes(ctx context.Context, dir *os.File) (bytes uint64, err error) {
	// A descriptor of its own, because reading moves the position.
	return usedBelow(ctx, int(dir.Fd()), ".", maxDepth)
}

// usedBelow is UsedBytes for a directory in another one.
func usedBelow(ctx context.Context, parent int, name string, depth int) (bytes uint64, err error) {
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if replaced(err) {
		return 0, nil
	}
	if err != nil {
		return 0, os.NewSyscallError("openat2", err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	if depth == 0 {
		return 0, errDeep
	}
	for {
		names, err := dir.Readdirnames(batchFiles)
		for _, each := range names {
			if ctx.Err() != nil {
				return bytes, context.Cause(ctx)
			}
			var info unix.Stat_t
			err := unix.Fstatat(fd, each, &info, unix.AT_SYMLINK_NOFOLLOW)
			switch {
			case errors.Is(err, unix.ENOENT): // removed since it was listed
			case err != nil:
				return bytes, os.NewSyscallError("fstatat", err)
			case info.Mode&unix.S_IFMT == unix.S_IFDIR:
				below, err := usedBelow(ctx, fd, each, depth-1)
				if bytes += below; err != nil {
					return bytes, err
				}
			default:
				bytes += uint64(info.Blocks) * blockBytes
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return bytes, nil
		case errors.Is(err, unix.ENOENT): // the directory itself was removed
			return bytes, nil
		case err != nil:
			return bytes, err
		}
	}
}

// replaced reports whether an error means that a directory was removed or replaced since it was
// listed, or that another file system is mounted there.
func replaced(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) ||
		errors.Is(err, unix.EXDEV)
}

// WatchUse reports what a directory takes, again and again, until stop is called or the context
// ends. It cancels with the first error that report returns.
func WatchUse(
	ctx context.Context,
	dir *os.File,
	report func(bytes uint64) error,
	cancel context.CancelCauseFunc,
) (stop func()) {
	looks, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for wait := useInterval; ; {
			select {
			case <-looks.Done():
				return
			case <-time.After(wait):
			}
			begun := time.Now()
			bytes, err := UsedBytes(looks, dir)
			if looks.Err() != nil {
				return
			}
			if err == nil {
				err = report(bytes)
			}
			if err != nil {
				cancel(err)
				return
			}
			wait = max(useInterval, usePart*time.Since(begun))
		}
	})
	return func() {
		end()
		watching.Wait() // it uses the directory
	}
}
