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

// sharing holds the files of chunks that other processes may map. Each Share of new chunks has its
// own file, so that importers keep the memory after it is unmapped here.
type sharing struct {
	mu sync.Mutex // serializes the moves of chunks
	// files maps chunks to files. Memory.mu guards it.
	files map[uint64]*sharedFile
}

// sharedFile holds consecutive chunks, starting with chunk first.
type sharedFile struct {
	file  *os.File
	first uint64
	refs  uint64 // chunks in the file that are mapped here
}

func (f *sharedFile) offset(chunk uint64) int64 { return int64((chunk - f.first) * gpu.ChunkBytes) }

// Share moves chunks into memory that other processes can map. Accesses to a chunk wait while it is
// moved, as for an absent chunk.
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

// fileFor returns the file that holds the chunks, or a new one.
func (m *Memory) fileFor(first, end uint64) (*sharedFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.sharing.files[first]
	for i := first; i < end; i++ {
		if m.sharing.files[i] != found {
			return nil, fmt.Errorf("part of the range is already shared: %w", abi.NotSupported)
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

// unref drops references of chunks to a file and closes it at zero. Memory.mu is held.
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
		case state == guarded:
			m.saveChunk(i)
		default:
			if p := m.detachChunk(i, state); p != nil {
				return m.moveChunk(i, state, p, f)
			}
		}
	}
}

// detachChunk makes a chunk absent, as if a fill were in progress. It returns nil if the chunk's
// state has changed.
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

// moveChunk moves a detached chunk to the file and makes it present again. On an error, the chunk
// is unchanged.
func (m *Memory) moveChunk(i uint64, state uint32, p *pendingChunk, f *sharedFile) error {
	invalidateSpans()
	at, chunk := f.offset(i), m.data[i*gpu.ChunkBytes:(i+1)*gpu.ChunkBytes]
	err := f.writeChunk(at, chunk, state)
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

// writeChunk copies a chunk's content into the file.
func (f *sharedFile) writeChunk(at int64, chunk []byte, state uint32) error {
	// Allocate now, so that a later access cannot run out of memory.
	if err := unix.Fallocate(int(f.file.Fd()), 0, at, int64(len(chunk))); err != nil {
		return err
	}
	if state == fresh {
		return nil // the file is zeros already
	}
	_, err := f.file.WriteAt(chunk, at)
	return err
}

// Import maps memory that another Memory has shared.
func (m *Memory) Import(r gpu.Range, file *os.File, offset int64) error {
	first, end, err := m.chunks(r)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil || offset < 0 || offset%gpu.ChunkBytes != 0 || offset > info.Size() ||
		uint64(info.Size()-offset) < r.Bytes {
		return fmt.Errorf("import %#x+%#x: range exceeds the file: %w", r.Address, r.Bytes, abi.InvalidValue)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.overlapsAlias(r) || m.anyMapped(r) {
		return fmt.Errorf("import %#x+%#x: %w", r.Address, r.Bytes, abi.AlreadyMapped)
	}
	if err := mapFixed(m.data[first*gpu.ChunkBytes:end*gpu.ChunkBytes], file, offset); err != nil {
		return fmt.Errorf("import %#x+%#x: %w: %w", r.Address, r.Bytes, err, abi.MapFailed)
	}
	for i := first; i < end; i++ {
		m.states.at(i).Store(imported)
	}
	return nil
}

// releaseChunk replaces the mapping of an unmapped chunk that was backed by a file in the given
// state. mu is held.
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
