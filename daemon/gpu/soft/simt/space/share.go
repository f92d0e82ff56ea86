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

// sharing is the files that have the content of chunks that other processes may have too. What is
// shared at once has a file of its own, so that it lives on for the others when it is unmapped
// here.
type sharing struct {
	mu sync.Mutex // one moves chunks at a time
	// files is by chunk; Memory.mu guards it.
	files map[uint64]*sharedFile
}

// sharedFile has chunks one after the other from chunk first on.
type sharedFile struct {
	file  *os.File
	first uint64
	refs  uint64 // chunks that are there and mapped here
}

func (f *sharedFile) offset(chunk uint64) int64 { return int64((chunk - f.first) * gpu.ChunkBytes) }

// Share moves chunks into memory that others can map. Who touches one meanwhile waits for it, as
// for one that is absent.
func (m *Memory) Share(r gpu.Range) (*os.File, int64, error) {
	first, end, err := m.chunks(r)
	if err != nil {
		return nil, 0, err
	}
	m.sharing.mu.Lock()
	defer m.sharing.mu.Unlock()
	f, err := m.fileFor(first, end)
	if err != nil {
		return nil, 0, fmt.Errorf("share %#x+%#x: %w", r.Address, r.Bytes, err)
	}
	for i := first; i < end && err == nil; i++ {
		err = m.shareChunk(i, f)
	}
	if err != nil {
		m.mu.Lock()
		f.unref(0)
		m.mu.Unlock()
		return nil, 0, fmt.Errorf("share %#x+%#x: %w", r.Address, r.Bytes, err)
	}
	fd, err := unix.FcntlInt(f.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("share %#x+%#x: %w: %w", r.Address, r.Bytes, err, abi.OperatingSystem)
	}
	return os.NewFile(uintptr(fd), "shared device memory"), f.offset(first), nil
}

// fileFor is the file that the chunks are in already, else a new one.
func (m *Memory) fileFor(first, end uint64) (*sharedFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.sharing.files[first]
	for i := first; i < end; i++ {
		if m.sharing.files[i] != found {
			return nil, fmt.Errorf("part of it was shared before: %w", abi.NotSupported)
		}
	}
	if found != nil {
		return found, nil
	}
	file, err := newSharedFile((end - first) * gpu.ChunkBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, abi.OutOfMemory)
	}
	return &sharedFile{file: file, first: first}, nil
}

// unref takes chunks out of a file, and closes it when it has none. Memory.mu is held.
func (f *sharedFile) unref(chunks uint64) {
	if f.refs -= chunks; f.refs == 0 {
		_ = f.file.Close()
	}
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
func (m *Memory) shareChunk(i uint64, f *sharedFile) error {
	for {
		switch state := m.states.load(i); {
		case state == unmapped:
			return abi.NotMapped
		case state >= shared:
			return nil
		case state == absent:
			if err := m.fillChunk(i); err != nil {
				return err
			}
		default:
			if p := m.detachChunk(i, state); p != nil {
				return m.moveChunk(i, state, p, f)
			}
		}
	}
}

// detachChunk makes a chunk absent, as if somebody were filling it; nil when it has changed meanwhile.
func (m *Memory) detachChunk(i uint64, state uint32) *pendingChunk {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.states.at(i).CompareAndSwap(state, absent) {
		return nil
	}
	p := &pendingChunk{started: true, done: make(chan struct{})}
	m.pending[i] = p
	return p
}

// moveChunk brings the chunk back as it was, in the file. When it fails the chunk is what it was.
func (m *Memory) moveChunk(i uint64, state uint32, p *pendingChunk, f *sharedFile) error {
	invalidateSpans()
	at, chunk := f.offset(i), m.data[i*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes]
	err := f.put(at, chunk, state)
	if err == nil {
		err = mapFixed(chunk, f.file, at)
	}
	if err == nil {
		state = shared
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states.at(i).Store(state)
	delete(m.pending, i)
	close(p.done)
	if err == nil {
		if m.sharing.files == nil {
			m.sharing.files = map[uint64]*sharedFile{}
		}
		m.sharing.files[i] = f
		f.refs++
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, abi.OutOfMemory)
	}
	return nil
}

func (f *sharedFile) put(at int64, chunk []byte, state uint32) error {
	// Allocated now: touching it later must not be the first to find that there is no memory.
	if err := unix.Fallocate(int(f.file.Fd()), 0, at, int64(len(chunk))); err != nil {
		return err
	}
	if state == fresh {
		return nil // zeros, as the file has there
	}
	_, err := f.file.WriteAt(chunk, at)
	return err
}

// Adopt backs a range with what another memory has shared.
func (m *Memory) Adopt(r gpu.Range, file *os.File, offset int64) error {
	first, end, err := m.chunks(r)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil || offset < 0 || offset%gpu.ChunkBytes != 0 || offset > info.Size() ||
		uint64(info.Size()-offset) < r.Bytes {
		return fmt.Errorf("adopt %#x+%#x: the file does not hold it: %w", r.Address, r.Bytes, abi.InvalidValue)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.overlapsAlias(r) || m.anyMapped(r) {
		return fmt.Errorf("adopt %#x+%#x: %w", r.Address, r.Bytes, abi.AlreadyMapped)
	}
	if err := mapFixed(m.data[first*gpu.ChunkBytes:end*gpu.ChunkBytes], file, offset); err != nil {
		return fmt.Errorf("adopt %#x+%#x: %w: %w", r.Address, r.Bytes, err, abi.MapFailed)
	}
	for i := first; i < end; i++ {
		m.states.at(i).Store(imported)
	}
	return nil
}

// releaseChunk drops the content of chunks that are unmapped now and were in a state. mu is held.
func (m *Memory) releaseChunk(i uint64, state uint32) error {
	chunk := m.data[i*gpu.ChunkBytes : (i+1)*gpu.ChunkBytes]
	switch state {
	case shared:
		f := m.sharing.files[i]
		delete(m.sharing.files, i)
		f.unref(1)
		return mapFixed(chunk, nil, 0)
	case imported:
		return mapFixed(chunk, nil, 0)
	}
	return nil
}
