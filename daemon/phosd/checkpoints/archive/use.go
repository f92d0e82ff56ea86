package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// useInterval is the time between two looks at what a directory takes. A look takes at most one
	// part in usePart of the time.
	useInterval = time.Second
	usePart     = 10
	// blockBytes is the unit of st_blocks.
	blockBytes = 512
)

// UsedBytes returns what the files below a directory take of the disk.
func UsedBytes(dir *os.File) (bytes uint64, err error) {
	root := os.DirFS(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	err = fs.WalkDir(root, ".", func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				if stat, ok := info.Sys().(*syscall.Stat_t); ok {
					bytes += uint64(stat.Blocks) * blockBytes
				}
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed since it was listed
		}
		return err
	})
	return bytes, err
}

// WatchUse reports what a directory takes, again and again, until stop is called or the context
// ends. It cancels with the first error that report returns.
func WatchUse(
	ctx context.Context,
	dir *os.File,
	report func(bytes uint64) error,
	cancel context.CancelCauseFunc,
) (stop func()) {
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for wait := useInterval; ; {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			begun := time.Now()
			bytes, err := UsedBytes(dir)
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
		close(ended)
		watching.Wait() // it uses the directory
	}
}
