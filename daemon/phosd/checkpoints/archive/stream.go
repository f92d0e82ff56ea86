package archive

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

const (
	// anyBytes is the size of an image that nobody knows yet: too large for memory.
	anyBytes = math.MaxInt64
	// streamBytes are read and written at a time.
	streamBytes = 1 << 20
)

// Receive unpacks a stream into a private image directory.
func (a *Archive) Receive(ctx context.Context, from *os.File, actor api.Actor) (*os.File, func(), error) {
	stream, err := fdtoken.OpenStream(ctx, from, false)
	if err != nil {
		return nil, nil, err
	}
	defer stream.Close()
	work, err := a.state.NewWork(anyBytes, 0, 0, 0)
	if err != nil {
		return nil, nil, err
	}
	clear := func() {
		if err := work.Remove(); err != nil {
			a.log.Error("clear up after a restore", "error", err)
		}
	}
	dir, err := store.Init(work.File)
	if err == nil {
		room := &roomReader{from: stream, disk: work.File, all: actor.Root()}
		_, err = store.ReadStream(ctx, bufio.NewReaderSize(room, streamBytes), dir)
		dir.Close()
	}
	if err != nil {
		clear()
		return nil, nil, err
	}
	return work.File, clear, nil
}

// roomReader keeps a user from filling phosd's disk with a stream that does not end.
type roomReader struct {
	from io.Reader
	disk *os.File
	// all is for who may fill it.
	all    bool
	before int64
}

const (
	// roomBytes are read between two looks at the disk, of which one part in roomPart stays free.
	roomBytes = 64 << 20
	roomPart  = 20
)

// Read reads, or says that there is too little room.
func (r *roomReader) Read(to []byte) (int, error) {
	if r.before -= int64(len(to)); r.before < 0 && !r.all {
		r.before = roomBytes
		var at unix.Statfs_t
		if err := unix.Fstatfs(int(r.disk.Fd()), &at); err != nil {
			return 0, err
		}
		if at.Bavail < at.Blocks/roomPart {
			return 0, fmt.Errorf(
				"%w: the disk of phosd's state directory is nearly full; restore from a directory",
				api.ErrExhausted,
			)
		}
	}
	return r.from.Read(to)
}
