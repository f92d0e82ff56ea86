package capture

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Source is a memory to capture.
type Source struct {
	// Name is the name of its entry in the image: "gpu0", "arena".
	Name string
	// Memory reads by address: a gpu.Memory or a *Host. Digests are kept as long as it is the same
	// value. Its optional interfaces (gpu.Tracker, gpu.Digester, gpu.Viewer, gpu.AccessRecorder) are
	// used.
	Memory io.ReaderAt
	// Ranges are what is mapped now. With a Tracker or Digester they must be whole chunks.
	Ranges []gpu.Range
}

// Host is memory of this process, at the addresses that it has in the program.
type Host struct {
	Address uint64
	Memory  []byte
}

// ReadAt copies memory out.
func (h *Host) ReadAt(p []byte, address int64) (int, error) {
	n := 0
	err := h.View(gpu.Range{Address: uint64(address), Bytes: uint64(len(p))}, func(piece []byte) error {
		n = copy(p, piece)
		return nil
	})
	return n, err
}

// View calls do with the memory in place.
func (h *Host) View(r gpu.Range, do func(piece []byte) error) error {
	if !(gpu.Range{Address: h.Address, Bytes: uint64(len(h.Memory))}).Contains(r) {
		return fmt.Errorf("read host memory at %#x+%#x: %w", r.Address, r.Bytes, abi.IllegalAddress)
	}
	at := r.Address - h.Address
	return do(h.Memory[at : at+r.Bytes])
}

// pieces divides ranges at the multiples of ChunkBytes and sorts them by address. Adjacent ranges
// are joined first, so that pieces stay the same when neighbouring memory is allocated.
func pieces(ranges []gpu.Range) []gpu.Range {
	sorted := slices.Clone(ranges)
	slices.SortFunc(sorted, func(a, b gpu.Range) int { return cmp.Compare(a.Address, b.Address) })
	var out []gpu.Range
	for _, r := range sorted {
		for r.Bytes > 0 {
			n := min(r.Bytes, image.ChunkBytes-r.Address%image.ChunkBytes)
			last := len(out) - 1
			if last >= 0 && out[last].End() == r.Address && r.Address%image.ChunkBytes != 0 {
				out[last].Bytes += n
			} else {
				out = append(out, gpu.Range{Address: r.Address, Bytes: n})
			}
			r.Address += n
			r.Bytes -= n
		}
	}
	return out
}

// wholeChunks reports whether all ranges begin and end at chunks.
func wholeChunks(ranges []gpu.Range) bool {
	return !slices.ContainsFunc(ranges, func(r gpu.Range) bool {
		return r.Address%gpu.ChunkBytes != 0 || r.Bytes%gpu.ChunkBytes != 0
	})
}

// runs joins adjacent pieces.
func runs(list []gpu.Range) []gpu.Range {
	var out []gpu.Range
	for _, r := range list {
		if last := len(out) - 1; last >= 0 && out[last].End() == r.Address {
			out[last].Bytes += r.Bytes
			continue
		}
		out = append(out, r)
	}
	return out
}

// total returns the size of all pieces.
func total(list []gpu.Range) (bytes uint64) {
	for _, r := range list {
		bytes += r.Bytes
	}
	return bytes
}

// unmapped reports whether err says that memory is no longer mapped, which may happen while the
// program runs.
func unmapped(err error) bool { return errors.Is(err, abi.IllegalAddress) }

// errShort is returned when a memory returned less than requested, without an error.
var errShort = errors.New("short read of memory")

// readInto copies a piece. If the memory is a gpu.Viewer this does not count as a touch.
func readInto(memory io.ReaderAt, r gpu.Range, into []byte) error {
	viewer, ok := memory.(gpu.Viewer)
	if !ok {
		n, err := memory.ReadAt(into[:r.Bytes], int64(r.Address))
		if err == nil && uint64(n) < r.Bytes {
			err = errShort
		}
		return err
	}
	n := 0
	return viewer.View(r, func(piece []byte) error {
		n += copy(into[n:r.Bytes], piece)
		return nil
	})
}

// inPlace calls do with the content of a piece in place, or else with a copy in spare, which holds
// a chunk. The program must be paused.
func inPlace(memory io.ReaderAt, r gpu.Range, spare func() []byte, do func(content []byte) error) error {
	viewer, ok := memory.(gpu.Viewer)
	if !ok {
		into := spare()[:r.Bytes]
		if err := readInto(memory, r, into); err != nil {
			return err
		}
		return do(into)
	}
	var gathered []byte
	n := 0
	return viewer.View(r, func(piece []byte) error {
		if uint64(len(piece)) == r.Bytes {
			return do(piece)
		}
		if gathered == nil {
			gathered = spare()[:r.Bytes]
		}
		if n += copy(gathered[n:], piece); uint64(n) == r.Bytes {
			return do(gathered)
		}
		return nil
	})
}
