package space

import (
	"encoding/binary"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// pieceBytes limits one step of a copy, so that it holds spans for only about a millisecond.
const pieceBytes = 4 * gpu.ChunkBytes

// Access calls do for the memory of a range, piece by piece in order. With write the chunks become
// dirty. do must return soon (copy, not wait) and must not call this package: Unmap and
// ClearDirty wait for it.
func (m *Memory) Access(r gpu.Range, write bool, do func(piece []byte) error) error {
	reader := NewReader()
	defer reader.Release()
	return m.access(reader, r, write, do)
}

// View is Access for reads that RecordAccesses does not record.
func (m *Memory) View(r gpu.Range, do func(piece []byte) error) error {
	reader := NewReader()
	defer reader.Release()
	reader.viewing = true
	return m.access(reader, r, false, do)
}

// access calls do for each piece of a range.
func (m *Memory) access(reader *Reader, r gpu.Range, write bool, do func(piece []byte) error) error {
	for r.Bytes > 0 {
		n, err := m.accessPiece(reader, r, write, do)
		if err != nil {
			return err
		}
		r.Address += n
		r.Bytes -= n
	}
	return nil
}

// accessPiece calls do for the first piece of a range and returns its size.
func (m *Memory) accessPiece(reader *Reader, r gpu.Range, write bool, do func(piece []byte) error) (uint64, error) {
	reader.Enter()
	defer reader.Exit()
	span, err := m.Find(reader, r.Address, write)
	if err != nil {
		return 0, fmt.Errorf("access %#x: %w", r.Address, err)
	}
	at := r.Address - span.Address
	n := min(r.Bytes, uint64(len(span.Memory))-at, pieceBytes)
	return n, do(span.Memory[at : at+n])
}

// ReadAt copies memory to p. address is a device address or that of mapped host memory.
func (m *Memory) ReadAt(p []byte, address int64) (int, error) {
	done := 0
	err := m.Access(gpu.Range{Address: uint64(address), Bytes: uint64(len(p))}, false, func(piece []byte) error {
		done += copy(p[done:], piece)
		return nil
	})
	return done, err
}

// WriteAt copies p into memory, which makes the chunks dirty.
func (m *Memory) WriteAt(p []byte, address int64) (int, error) {
	done := 0
	err := m.Access(gpu.Range{Address: uint64(address), Bytes: uint64(len(p))}, true, func(piece []byte) error {
		done += copy(piece, p[done:])
		return nil
	})
	return done, err
}

// Copy copies between two ranges, which may be in different windows. Overlapping ranges are copied
// as if through a buffer.
func (m *Memory) Copy(dst, src, bytes uint64) error {
	reader := NewReader()
	defer reader.Release()
	backwards := dst > src && dst-src < bytes
	for done := uint64(0); done < bytes; {
		n, err := m.copyPiece(reader, dst, src, copyProgress{done, bytes, backwards})
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

// copyProgress is the progress of a copy: done of bytes, from the front or from the back.
type copyProgress struct {
	done, bytes uint64
	backwards   bool
}

// copyPiece copies the next piece and returns its size.
func (m *Memory) copyPiece(reader *Reader, dst, src uint64, s copyProgress) (uint64, error) {
	reader.Enter()
	defer reader.Exit()
	left := min(s.bytes-s.done, pieceBytes)
	at := s.done
	if s.backwards {
		at = s.bytes - s.done - left
	}
	// Look up the destination first: looking up the source cannot make a dirty chunk clean again. If
	// one of them had to be filled, both are looked up again.
	for {
		before := reader.Version()
		to, err := m.Find(reader, dst+at, true)
		if err != nil {
			return 0, fmt.Errorf("copy to %#x: %w", dst+at, err)
		}
		from, err := m.Find(reader, src+at, false)
		if err != nil {
			return 0, fmt.Errorf("copy from %#x: %w", src+at, err)
		}
		if reader.Version() != before {
			continue
		}
		toAt, fromAt := dst+at-to.Address, src+at-from.Address
		n := min(left, uint64(len(to.Memory))-toAt, uint64(len(from.Memory))-fromAt)
		if s.backwards && n < left {
			// The back of the piece must be copied first: try again with a piece that ends where this span
			// ends.
			left -= n
			at += n
			continue
		}
		copy(to.Memory[toAt:toAt+n], from.Memory[fromAt:fromAt+n])
		return n, nil
	}
}

// Fill repeats a pattern of 1, 2 or 4 bytes count times from address on.
func (m *Memory) Fill(address uint64, pattern uint32, patternBytes uint8, count uint64) error {
	if patternBytes != 1 && patternBytes != 2 && patternBytes != 4 || address%uint64(patternBytes) != 0 || count > 1<<56 {
		return fmt.Errorf("fill %#x with patterns of %d bytes: %w", address, patternBytes, abi.InvalidValue)
	}
	var word [4]byte
	binary.LittleEndian.PutUint32(word[:], pattern)
	r := gpu.Range{Address: address, Bytes: count * uint64(patternBytes)}
	return m.Access(r, true, func(piece []byte) error {
		fillPiece(piece, word[:patternBytes])
		return nil
	})
}

// fillPiece repeats a pattern by doubling the filled part. Host regions may end inside a pattern.
func fillPiece(piece, pattern []byte) {
	if len(pattern) == 1 && pattern[0] == 0 {
		clear(piece)
		return
	}
	for n := copy(piece, pattern); n < len(piece); {
		n += copy(piece[n:], piece[:n])
	}
}
