package archive

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// Target is the image directory to which a checkpoint is written.
type Target struct {
	Dir *store.Dir
	// Publish writes a complete generation to the stream; nil for a directory.
	Publish func(ctx context.Context, generation uint64, limit *contents.Limit) error
	// Work is the private directory of an image that goes to a stream, Share what it counts in; nil
	// for a directory.
	Work  *os.File
	Share *quota.Claim
	// Close discards an unfinished generation.
	Close func()
}

// Into opens or makes an image directory. Files are written with the given rights.
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
			a.log.Error("discard unfinished generation", "error", err)
		}
		dir.Close()
	}}, nil
}

// IntoStream makes the image in a private directory, and streams it when it is complete.
func (a *Archive) IntoStream(ctx context.Context, to *os.File, caller api.Caller) (*Target, error) {
	stream, err := fdtoken.OpenStream(ctx, to, true)
	if err != nil {
		return nil, err
	}
	stream.SetIdle(a.idle)
	share, err := a.quota.Take(caller.UID, quota.StreamBytes, 0)
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	share.By(caller.Process)
	work, err := a.state.NewWork(unknownBytes, 0, 0, 0)
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	dir, err := store.Init(work.File)
	if err != nil {
		return nil, errors.Join(err, work.Remove(), stream.Close())
	}
	publish := func(ctx context.Context, generation uint64, limit *contents.Limit) error {
		buffered := bufio.NewWriterSize(&limitedWriter{ctx, stream, limit}, streamBytes)
		if err := store.WriteStream(ctx, dir, generation, buffered); err != nil {
			return err // a failed flush would return the same error
		}
		return buffered.Flush()
	}
	return &Target{Dir: dir, Publish: publish, Work: work.File, Share: share, Close: func() {
		defer share.Release()
		_ = stream.Close() // write errors were reported by Publish
		dir.Close()
		if err := work.Remove(); err != nil {
			a.log.Error("discard unfinished generation", "error", err)
		}
	}}, nil
}

// limitedWriter writes within a limit.
type limitedWriter struct {
	ctx   context.Context
	to    io.Writer
	limit *contents.Limit
}

// Write implements io.Writer.
func (w *limitedWriter) Write(data []byte) (n int, err error) {
	for n < len(data) && err == nil {
		piece := data[n:min(len(data), n+streamBytes)]
		if err = w.limit.Wait(w.ctx, len(piece)); err != nil {
			return n, err
		}
		var wrote int
		wrote, err = w.to.Write(piece)
		n += wrote
	}
	return n, err
}
