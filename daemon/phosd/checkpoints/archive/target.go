package archive

import (
	"bufio"
	"context"
	"errors"
	"os"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// Target is where a checkpoint is written.
type Target struct {
	Dir *store.Dir
	// Publish passes a complete generation on; nil: it lies where it shall.
	Publish func(ctx context.Context, generation uint64) error
	// Close leaves a target in which nothing was begun as it was.
	Close func()
}

// Into opens or makes an image directory; what is written there is written with a user's rights.
func (a *Archive) Into(directory *os.File, as fsuid.Rights) (*Target, error) {
	if err := CheckDirectory(directory); err != nil {
		return nil, err
	}
	dir, err := store.Init(directory, store.As(as.Do))
	if err != nil {
		return nil, err
	}
	return &Target{Dir: dir, Close: func() {
		if err := dir.Discard(); err != nil {
			a.log.Error("clear up after a checkpoint", "error", err)
		}
		dir.Close()
	}}, nil
}

// IntoStream makes the image in a private directory first.
func (a *Archive) IntoStream(ctx context.Context, to *os.File) (*Target, error) {
	stream, err := fdtoken.OpenStream(ctx, to, true)
	if err != nil {
		return nil, err
	}
	work, err := a.state.NewWork(anyBytes, 0, 0, 0)
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	dir, err := store.Init(work.File)
	if err != nil {
		return nil, errors.Join(err, work.Remove(), stream.Close())
	}
	publish := func(ctx context.Context, generation uint64) error {
		buffered := bufio.NewWriterSize(stream, streamBytes)
		if err := store.WriteStream(ctx, dir, generation, buffered); err != nil {
			return err // what could not be flushed before says the same once more
		}
		return buffered.Flush()
	}
	return &Target{Dir: dir, Publish: publish, Close: func() {
		_ = stream.Close() // what matters has been written, or reported
		dir.Close()
		if err := work.Remove(); err != nil {
			a.log.Error("clear up after a checkpoint", "error", err)
		}
	}}, nil
}
