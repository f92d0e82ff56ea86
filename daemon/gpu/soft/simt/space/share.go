package space

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// sharing is the file that has the content of the chunks that other processes may have too, each at its place in the window.
type sharing struct {
	mu   sync.Mutex
	file *os.File // nil while nothing was ever shared
}

// Share moves chunks into memory that others can map. Who touches one meanwhile waits for it, as for one that is absent.
func (m *Memory) Share(r gpu.Range) (*os.File, int64, error) {
	first, end, err := m.chunks(r)
	if err != nil {
		return nil, 0, err
	}
	m.sharing.mu.Lock()
	defer m.sharing.mu.Unlock()
	if m.sharing.file == nil {
		if m.sharing.file, err = newSharedFile(m.window.Bytes); err != nil {
			return nil, 0, fmt.Errorf("share %#x+%#x: %w: %w", r.Address, r.Bytes, err, abi.OutOfMemory)
		}
	}
	for i := first; i < end; i++ {
		if err := m.shareChunk(i); err != nil {
			return nil, 0, fmt.Errorf("share %#x+%#x: %w", r.Address, r.Bytes, err)
		}
	}
	fd, err := unix.FcntlInt(m.sharing.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("share %#x+%#x: %w: %w", r.Address, r.Bytes, err, abi.OperatingSystem)
	}
	return os.NewFile(uintptr(fd), "shared device memory"), int64(first * gpu.ChunkBytes), nil
}

func newSharedFile(bytes uint64) (*os.File, error) {
	fd, err := unix.MemfdCreate("phos-device-memory", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "shared device memory")
	if err := file.Truncate(int64(bytes)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// shareChunk moves one chunk. sharing.mu is held.
func (m *Memory) shareChunk(i uint64) error {
	for {
		switch state := m.states[i].Load(); {
		case state == unmapped:
			return abi.NotMapped
		case state >= shared:
			return nil
		case state == absent:
			if err := m.bring(i); err != nil {
				return err
			}
		default:
			if p := m.takeAway(i, state); p != nil {
				return m.moveChunk(i, state, p)
			}
		}
	}
}

// takeAway makes a chunk absent, as if somebody were filling it; nil when it has changed meanwhile.
func (m *Memory) takeAway(i uint64, state uint32) *pendingChunk {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.states[i].CompareAndSwap(state, absent) {
		return nil
	}
	p := &pendingChunk{started: true, done: make(chan struct{})}
	m.pending[i] = p
	return p
}

// moveChunk brings the chunk back as it was, in the file. When it fails the chunk is what it was.
func (m *Memory) moveChunk(i uint64, state uint32, p *pendingChunk) error {
	retire()
	at, chunk := int64(i*gpu.ChunkBytes), m.data[i*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes]
	err := m.copyToFile(at, chunk, state)
	if err == nil {
		err = mapFixed(chunk, m.sharing.file, at)
	}
	if err == nil {
		state = shared
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states[i].Store(state)
	delete(m.pending, i)
	close(p.done)
	if err != nil {
		return fmt.Errorf("%w: %w", err, abi.OutOfMemory)
	}
	return nil
}

func (m *Memory) copyToFile(at int64, chunk []byte, state uint32) error {
	// Allocated now: touching it later must not be the first to find that there is no memory.
	if err := unix.Fallocate(int(m.sharing.file.Fd()), 0, at, int64(len(chunk))); err != nil {
		return err
	}
	if state == fresh {
		return nil // zeros, as the file has there
	}
	_, err := m.sharing.file.WriteAt(chunk, at)
	return err
}

// Adopt backs a range with what another memory has shared.
func (m *Memory) Adopt(r gpu.Range, file *os.File, offset int64) error {
	first, end, err := m.chunks(r)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil || offset < 0 || offset%gpu.ChunkBytes != 0 || offset > info.Size() || uint64(info.Size()-offset) < r.Bytes {
		return fmt.Errorf("adopt %#x+%#x: the file does not hold it: %w", r.Address, r.Bytes, abi.InvalidValue)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.aliased(r) || m.anyMapped(r) {
		return fmt.Errorf("adopt %#x+%#x: %w", r.Address, r.Bytes, abi.AlreadyMapped)
	}
	if err := mapFixed(m.data[first*gpu.ChunkBytes:end*gpu.ChunkBytes], file, offset); err != nil {
		return fmt.Errorf("adopt %#x+%#x: %w: %w", r.Address, r.Bytes, err, abi.MapFailed)
	}
	for i := first; i < end; i++ {
		m.states[i].Store(adopted)
	}
	return nil
}

// giveBack drops the content of chunks that are unmapped now and were in a state.
func (m *Memory) giveBack(i uint64, state uint32) error {
	chunk := m.data[i*gpu.ChunkBytes : (i+1)*gpu.ChunkBytes]
	switch state {
	case shared:
		punch := uint32(unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE)
		if err := unix.Fallocate(int(m.sharing.file.Fd()), punch, int64(i*gpu.ChunkBytes), gpu.ChunkBytes); err != nil {
			return err
		}
		return mapFixed(chunk, nil, 0)
	case adopted:
		return mapFixed(chunk, nil, 0)
	}
	return nil
}
