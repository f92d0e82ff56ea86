package archive

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
)

const (
	// unknownBytes stands for the unknown size of a streamed image: too large for memory.
	unknownBytes = math.MaxInt64
	// streamBytes is the size of reads and writes.
	streamBytes = 1 << 20
)

// Receive unpacks a stream into a private image directory, which the returned function removes.
func (a *Archive) Receive(ctx context.Context, from *os.File, caller api.Caller) (*os.File, func(), error) {
	stream, err := fdtoken.OpenStream(ctx, from, false)
	if err != nil {
		return nil, nil, err
	}
	defer stream.Close()
	stream.SetIdle(a.idle)
	share, err := a.quota.Take(caller.UID, quota.StreamBytes, 0)
	if err != nil {
		return nil, nil, err
	}
	share.By(caller.Process)
	work, err := a.state.NewWork(unknownBytes, 0, 0, 0)
	if err != nil {
		return nil, nil, err
	}
	remove := func() {
		defer share.Release()
		if err := work.Remove(); err != nil {
			a.log.Error("remove work directory", "error", err)
		}
	}
	dir, err := store.Init(work.File)
	if err == nil {
		room := &roomReader{from: stream, share: share, disk: work.File, all: caller.Root()}
		_, err = store.ReadStream(ctx, bufio.NewReaderSize(room, streamBytes), dir)
		dir.Close()
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return work.File, remove, nil
}

// roomReader keeps users from filling phosd's disk by endless streams.
type roomReader struct {
	from io.Reader
	// share counts what was read as the user's.
	share *quota.Claim
	disk  *os.File
	// all disables the limit.
	all bool
	// before is how many bytes are read before the next look at the disk.
	before int64
}

const (
	// roomBytes is what is read between two looks at the disk. One part in roomPart of it stays free.
	roomBytes = 64 << 20
	roomPart  = 20
)

// Read reads, or fails if the disk is nearly full or the user's share of it is used up.
func (r *roomReader) Read(to []byte) (n int, err error) {
	n, err = r.read(to)
	if failure := r.share.Grow(uint64(n)); failure != nil {
		return 0, failure
	}
	return n, err
}

// read reads, or fails if the disk is nearly full.
func (r *roomReader) read(to []byte) (int, error) {
	if r.before -= int64(len(to)); r.before < 0 && !r.all {
		r.before = roomBytes
		if err := checkReserve(r.disk); err != nil {
			return 0, fmt.Errorf("%w; restore from a directory", err)
		}
	}
	return r.from.Read(to)
}
